"""What is over of instances is purged: of those that live by `history_retention`, of deleted ones with the instance."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select

from minova.db import models
from minova.objects.migration import Migration, MigrationType
from tests.functional.conductor.desk import CTX, FLAVOR, Desk
from tests.functional.scheduler.cloud import named
from tests.tables import make_tables

YEAR = 365 * 86400.0


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    made = Desk(url, conductor__purge_batch_size=2, conductor__purge_pause=0.001)
    yield made
    made.close()


def add_migration(desk: Desk, name: str, instance_uuid: str, status: str) -> None:
    """With its row as a consumer."""
    at = desk.conductor.worker.at()
    value = Migration(
        uuid=named(name),
        instance_uuid=instance_uuid,
        migration_type=MigrationType.EVACUATION,
        status=status,
        source_compute="a",
        source_node="a-node",
        dest_compute="b",
        dest_node="b-node",
        old_flavor=FLAVOR,
        new_flavor=FLAVOR,
    )
    row = {name: getattr(value, name) for name in ("uuid", "instance_uuid", "migration_type", "status")}
    places = {name: getattr(value, name) for name in ("source_compute", "source_node", "dest_compute", "dest_node")}
    desk.db.run(lambda s: s.execute(insert(models.Migration).values(**row, **places, value=value, created_at=at)))
    desk.db.run(lambda s: s.add(models.Consumer(uuid=named(name), claim_number=1, consumer_type="MIGRATION")))


def values(desk: Desk, column: Any) -> list[Any]:
    with desk.db.read() as session:
        return sorted(session.scalars(select(column)))


def purge(desk: Desk, seconds: float) -> None:
    desk.tick(desk.conductor, seconds)


def test_migrations_that_ended_long_ago_go_with_their_consumers(desk: Desk) -> None:
    uuid = desk.active()
    for number in range(5):
        add_migration(desk, f"old {number}", uuid, "done")
    add_migration(desk, "open", uuid, "accepted")
    purge(desk, YEAR - 10)
    add_migration(desk, "new", uuid, "done")
    assert len(values(desk, models.Migration.uuid)) == 7
    purge(desk, 20)
    left = sorted([named("open"), named("new")])
    assert [one for one in values(desk, models.Migration.uuid) if one != named("open")] == [named("new")]
    assert set(values(desk, models.Consumer.uuid)) <= {*left, uuid}


def test_a_purged_instance_takes_its_migrations_along(desk: Desk) -> None:
    uuid, other = desk.active(), desk.active()
    add_migration(desk, "gone", uuid, "done")
    add_migration(desk, "stays", other, "done")
    desk.delete(uuid)
    desk.settle()
    desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    purge(desk, 31 * 86400.0)
    assert values(desk, models.Migration.uuid) == [named("stays")]
    assert sorted(values(desk, models.Consumer.uuid)) == sorted([other, named("stays")])
    assert desk.count(models.InstanceAction) == 1


def test_actions_of_a_living_instance_go_when_they_ended_long_ago(desk: Desk) -> None:
    desk.active()
    purge(desk, YEAR - 10)
    young = desk.active()
    purge(desk, 20)
    assert values(desk, models.InstanceAction.instance_uuid) == [young]
    assert desk.count(models.InstanceActionEvent) == 1


def test_the_newest_fault_of_an_instance_stays(desk: Desk) -> None:
    at = desk.conductor.worker.at()
    rows = [
        {"instance_uuid": named(name), "code": 500, "message": f"{number}", "details": "", "created_at": at}
        for name in ("one", "two")
        for number in range(3)
    ]
    desk.db.run(lambda session: session.execute(insert(models.InstanceFault), rows))
    purge(desk, YEAR + 10)
    assert values(desk, models.InstanceFault.message) == ["2", "2"]


def test_history_without_a_retention_is_kept(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/kept.sqlite"
    make_tables(url)
    desk = Desk(url, conductor__history_retention=0)
    desk.active()
    purge(desk, 3 * YEAR)
    assert desk.count(models.InstanceAction) == 1
    desk.close()
