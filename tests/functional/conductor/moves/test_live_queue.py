"""How many live migrations a host takes part in at once, counted in rows."""

from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from minova.conductor.moves.destinations.live_queue import LiveQueue
from minova.db.servers import migrations
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.migration import Migration, MigrationType
from tests.functional.conductor.conductor_harness import ConductorHarness

FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=512, root_gb=1)
AT = datetime(2026, 11, 28)  # noqa: DTZ001  - as all times in the tables


def add(harness: ConductorHarness, status: str, source: str, destination: str, **changed: Any) -> Migration:
    with harness.db.write() as session:
        number = len(migrations_of(harness)) + 1
        migration = Migration(
            uuid=f"m{number}",
            instance_uuid=f"i{number}",
            migration_type=changed.get("kind", MigrationType.LIVE_MIGRATION),
            status=status,
            source_compute=source,
            source_node=f"{source}-node",
            dest_compute=destination,
            dest_node=f"{destination}-node",
            old_flavor=FLAVOR,
            new_flavor=FLAVOR,
            attempt=2,
        )
        migrations.add(session, migration, AT, harness.db.now())
    return migration


def migrations_of(harness: ConductorHarness) -> list[str]:
    with harness.db.read() as session:
        return [row.uuid for number in range(1, 9) if (row := migrations.find(session, f"m{number}")) is not None]


def may_go(harness: ConductorHarness, most: int, migration: Migration) -> bool:
    queue = LiveQueue(cast(Any, SimpleNamespace(max_concurrent_live_migrations=most)))
    with harness.db.write() as session:
        return queue.may_go(session, migration)


@pytest.mark.parametrize(("most", "goes"), [(0, True), (1, False), (2, False), (3, True)])
def test_a_migration_goes_while_both_hosts_take_part_in_fewer_than_the_most(
    harness: ConductorHarness, most: int, *, goes: bool
) -> None:
    add(harness, "running", "a", "b")
    add(harness, "pre-migrating", "b", "a")
    assert may_go(harness, most, add(harness, "accepted", "a", "c")) is goes


@pytest.mark.parametrize(("source", "destination"), [("a", "c"), ("c", "a"), ("b", "c"), ("c", "b")])
@pytest.mark.parametrize("most", [0, 1, 2])
def test_each_host_counts_as_source_and_as_destination(
    harness: ConductorHarness, most: int, source: str, destination: str
) -> None:
    add(harness, "running", "a", "b")
    assert may_go(harness, most, add(harness, "accepted", source, destination)) is (most != 1)


@pytest.mark.parametrize("most", [1, 2])
def test_the_first_of_those_that_wait_comes_first(harness: ConductorHarness, most: int) -> None:
    waiting = [add(harness, "queued", "a", "b") for _ in range(4)]
    assert [may_go(harness, most, migration) for migration in waiting] == [number < most for number in range(4)]
    queue = LiveQueue(cast(Any, None))
    with harness.db.read() as session:
        assert queue.waiting(session) == [migration.instance_uuid for migration in waiting]


@pytest.mark.parametrize("status", ["accepted", "completed", "error", "failed", "cancelled"])
def test_a_migration_that_has_no_turn_takes_none(harness: ConductorHarness, status: str) -> None:
    add(harness, status, "a", "b")
    assert may_go(harness, 1, add(harness, "accepted", "a", "b"))


def test_moves_of_another_kind_and_of_other_hosts_take_no_turn(harness: ConductorHarness) -> None:
    add(harness, "migrating", "a", "b", kind=MigrationType.MIGRATION)
    add(harness, "running", "c", "d")
    assert may_go(harness, 1, add(harness, "accepted", "a", "b"))
