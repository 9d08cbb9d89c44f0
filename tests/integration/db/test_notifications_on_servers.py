"""What is told of instances on PostgreSQL and MariaDB: the same as on SQLite, though rows are locked for it."""

from collections.abc import Iterator

import pytest
from oslo_messaging.notify import _impl_test

from minova.messaging.notifier import Notifier
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.notifications.test_instances import sent_notifications
from tests.unit.messaging.test_notifier import conf_of


@pytest.fixture(params=["postgresql_tables", "mariadb_tables"])
def harness(request: pytest.FixtureRequest) -> Iterator[ConductorHarness]:
    url: str = request.getfixturevalue(request.param)
    _impl_test.reset()
    harness = ConductorHarness(
        url, notifier=Notifier(conf_of(["test"])), notifications__notify_on_state_change="vm_state"
    )
    yield harness
    harness.close()
    _impl_test.reset()


def test_a_life_is_told_in_its_order(harness: ConductorHarness) -> None:
    (uuid,) = harness.create()
    harness.claim("a", uuid)
    harness.fail("a", uuid)
    harness.build("b", uuid, attempt=2)
    harness.delete(uuid)
    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="b")
    assert [message["event_type"].removeprefix("compute.instance.") for message in sent_notifications(harness)] == [
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
