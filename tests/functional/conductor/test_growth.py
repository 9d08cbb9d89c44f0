"""What is over of instances is purged: of those that live by `history_retention`, of deleted ones with the instance."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select

from minova.db import models
from minova.objects.servers.migration import Migration, MigrationType
from tests.functional.conductor.conductor_harness import CTX, FLAVOR, ConductorHarness
from tests.functional.scheduler.cloud import named
from tests.tables import make_tables

YEAR = 365 * 86400.0


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ConductorHarness]:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    harness = ConductorHarness(url, conductor__purge_batch_size=2, conductor__purge_pause=0.001)
    yield harness
    harness.close()


def add_migration(harness: ConductorHarness, name: str, instance_uuid: str, status: str) -> None:
    """With its row as a consumer."""
    at = harness.conductor.worker.at()
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
    times = {"created_at": at, "changed_at": harness.conductor.worker.now()}
    harness.db.run(lambda s: s.execute(insert(models.Migration).values(**row, **places, **times, value=value)))
    harness.db.run(lambda s: s.add(models.Consumer(uuid=named(name), claim_number=1, consumer_type="MIGRATION")))


def values(harness: ConductorHarness, column: Any) -> list[Any]:
    with harness.db.read() as session:
        return sorted(session.scalars(select(column)))


def purge(harness: ConductorHarness, seconds: float) -> None:
    harness.tick(harness.conductor, seconds)


def test_migrations_that_ended_long_ago_go_with_their_consumers(harness: ConductorHarness) -> None:
    uuid = harness.active()
    for number in range(5):
        add_migration(harness, f"old {number}", uuid, "done")
    add_migration(harness, "open", uuid, "accepted")
    purge(harness, YEAR - 10)
    add_migration(harness, "new", uuid, "done")
    assert len(values(harness, models.Migration.uuid)) == 7
    purge(harness, 20)
    left = sorted([named("open"), named("new")])
    assert [
        migration_uuid for migration_uuid in values(harness, models.Migration.uuid) if migration_uuid != named("open")
    ] == [named("new")]
    assert set(values(harness, models.Consumer.uuid)) <= {*left, uuid}


def test_a_purged_instance_takes_its_migrations_along(harness: ConductorHarness) -> None:
    uuid, other = harness.active(), harness.active()
    add_migration(harness, "gone", uuid, "done")
    add_migration(harness, "stays", other, "done")
    harness.delete(uuid)
    harness.settle()
    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    purge(harness, 31 * 86400.0)
    assert values(harness, models.Migration.uuid) == [named("stays")]
    assert sorted(values(harness, models.Consumer.uuid)) == sorted([other, named("stays")])
    assert harness.count(models.InstanceAction) == 1


def test_actions_of_a_living_instance_go_when_they_ended_long_ago(harness: ConductorHarness) -> None:
    """Except the newest of each instance, with which its host compares what has ended there."""
    old, at = harness.active(), harness.conductor.worker.at()
    stop = {"instance_uuid": old, "action": "stop", "request_id": "req-stop", "user_id": "u", "project_id": "p"}
    ended = {"start_time": at, "finish_time": at, "result": "Success"}
    harness.db.run(lambda session: session.execute(insert(models.InstanceAction), [stop | ended]))
    purge(harness, YEAR - 10)
    young = harness.active()
    purge(harness, 20)
    assert values(harness, models.InstanceAction.instance_uuid) == sorted([old, young])
    assert sorted(values(harness, models.InstanceAction.action)) == ["create", "stop"]
    assert harness.count(models.InstanceActionEvent) == 1


def test_the_newest_fault_of_an_instance_stays(harness: ConductorHarness) -> None:
    at = harness.conductor.worker.at()
    rows = [
        {"instance_uuid": named(name), "code": 500, "message": f"{number}", "details": "", "created_at": at}
        for name in ("one", "two")
        for number in range(3)
    ]
    harness.db.run(lambda session: session.execute(insert(models.InstanceFault), rows))
    purge(harness, YEAR + 10)
    assert values(harness, models.InstanceFault.message) == ["2", "2"]


def test_history_without_a_retention_is_kept(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/kept.sqlite"
    make_tables(url)
    harness = ConductorHarness(url, conductor__history_retention=0)
    harness.active()
    purge(harness, 3 * YEAR)
    assert harness.count(models.InstanceAction) == 1
    harness.close()
