"""What is told of instances on PostgreSQL and MariaDB: the same as on SQLite, though rows are locked for it."""

from collections.abc import Iterator

import pytest
from oslo_messaging.notify import _impl_test

from minova.notifier import Notifier
from tests.functional.conductor.desk import CTX, Desk
from tests.functional.conductor.notifications.test_instances import told
from tests.unit.test_notifier import conf_of


@pytest.fixture(params=["postgresql_tables", "mariadb_tables"])
def desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    url: str = request.getfixturevalue(request.param)
    _impl_test.reset()
    made = Desk(url, notifier=Notifier(conf_of(["test"])), notifications__notify_on_state_change="vm_state")
    yield made
    made.close()
    _impl_test.reset()


def test_a_life_is_told_in_its_order(desk: Desk) -> None:
    (uuid,) = desk.create()
    desk.claim("a", uuid)
    desk.fail("a", uuid)
    desk.build("b", uuid, attempt=2)
    desk.delete(uuid)
    desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host="b")
    assert [message["event_type"].removeprefix("compute.instance.") for message in told(desk)] == [
        "update",
        "create.start",
        "create.error",
        "create.start",
        "create.end",
        "update",
        "delete.start",
        "delete.end",
        "update",
    ]
