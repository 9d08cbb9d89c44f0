"""What a move holds on a node beside its instance, and when an instance counts as moving."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from minova.compute.accounting.migrations import MigrationSide, holds_resources, is_moving, side_of, sides_held
from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.numa import InstanceNUMACell, InstanceNUMATopology
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import Migration, MigrationType
from minova.objects.servers.states import TaskState, VmState

OLD = Flavor(flavorid="old", name="old", vcpus=1, memory_mb=100, root_gb=1)
NEW = Flavor(flavorid="new", name="new", vcpus=2, memory_mb=50, root_gb=1)
CELLS = InstanceNUMATopology(cells=(InstanceNUMACell(id=0, cpuset=frozenset({0}), memory=100),))
MOVE = Migration(
    uuid="m",
    instance_uuid="i",
    migration_type=MigrationType.RESIZE,
    status="migrating",
    source_compute="a",
    source_node="a1",
    dest_compute="b",
    dest_node="b1",
    old_flavor=OLD,
    new_flavor=NEW,
    new_numa_topology=CELLS,
)
INSTANCE = Instance(
    uuid="i",
    display_name="vm",
    flavor=OLD,
    project_id="p",
    host="a",
    node="a1",
    vm_state=VmState.ACTIVE,
    task_state=TaskState.RESIZE_MIGRATING,
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def move(**changes: Any) -> Migration:
    return msgspec.structs.replace(MOVE, **changes)


def instance(**changes: Any) -> Instance:
    return msgspec.structs.replace(INSTANCE, **changes)


def within(**changes: Any) -> Migration:
    """A resize within one node."""
    return move(dest_compute="a", dest_node="a1", **changes)


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({}, True),
        ({"host": "b"}, False),
        ({"node": "a2"}, False),
        ({"deleted": True}, False),
        ({"vm_state": VmState.SHELVED_OFFLOADED, "task_state": None}, False),
    ],
)
def test_an_instance_counts_on_the_node_of_its_row(changes: dict[str, Any], holds: bool) -> None:
    assert holds_resources(instance(**changes), "a", "a1") is holds


@pytest.mark.parametrize(
    ("migration", "here", "place", "held"),
    [
        (MOVE, False, ("b", "b1"), (NEW, CELLS, None)),
        (MOVE, True, ("b", "b1"), None),
        (MOVE, False, ("a", "a1"), (OLD, None, None)),
        (MOVE, True, ("a", "a1"), None),
        (MOVE, False, ("b", "b2"), None),
        (MOVE, False, ("c", "b1"), None),
        (MOVE, False, ("a", "a2"), None),
        (within(), True, ("a", "a1"), (NEW, CELLS, None)),
        (within(status="finished"), True, ("a", "a1"), (OLD, None, None)),
        (within(new_numa_topology=None), True, ("a", "a1"), (NEW, None, OLD)),
        (within(new_numa_topology=None, status="finished"), True, ("a", "a1"), (OLD, None, NEW)),
        (within(), True, ("b", "b1"), None),
    ],
)
def test_a_move_holds_the_side_that_its_instance_does_not_have(
    migration: Migration, here: bool, place: tuple[str, str], held: tuple[Any, ...] | None
) -> None:
    side = side_of(migration, here, *place)
    assert (side and (side.flavor, side.numa_topology, side.beside)) == held


@pytest.mark.parametrize(
    ("kind", "vm_state", "task_state", "moving"),
    [
        (MigrationType.RESIZE, VmState.ACTIVE, TaskState.RESIZE_PREP, True),
        (MigrationType.RESIZE, VmState.STOPPED, TaskState.RESIZE_FINISH, True),
        (MigrationType.RESIZE, VmState.RESIZED, None, True),
        (MigrationType.RESIZE, VmState.ACTIVE, None, False),
        (MigrationType.RESIZE, VmState.ACTIVE, TaskState.REBUILDING, False),
        (MigrationType.RESIZE, VmState.ERROR, TaskState.RESIZE_MIGRATING, False),
        (MigrationType.MIGRATION, VmState.ACTIVE, TaskState.RESIZE_REVERTING, True),
        (MigrationType.MIGRATION, VmState.ACTIVE, TaskState.MIGRATING, False),
        (MigrationType.LIVE_MIGRATION, VmState.ACTIVE, TaskState.MIGRATING, True),
        (MigrationType.LIVE_MIGRATION, VmState.PAUSED, TaskState.MIGRATING, True),
        (MigrationType.LIVE_MIGRATION, VmState.ACTIVE, TaskState.RESIZE_PREP, False),
        (MigrationType.EVACUATION, VmState.ERROR, TaskState.REBUILD_SPAWNING, True),
        (MigrationType.EVACUATION, VmState.ACTIVE, TaskState.MIGRATING, False),
        (MigrationType.EVACUATION, VmState.ACTIVE, None, False),
    ],
)
def test_the_instance_itself_says_whether_it_moves(
    kind: MigrationType, vm_state: VmState, task_state: TaskState | None, moving: bool
) -> None:
    assert is_moving(instance(vm_state=vm_state, task_state=task_state), move(migration_type=kind)) is moving


def held_on_b(*migrations: Migration, **changes: Any) -> dict[str, MigrationSide]:
    return sides_held(migrations, {"i": instance(**changes)}, "b", "b1")


@pytest.mark.parametrize(
    ("migration", "changes", "held"),
    [
        (MOVE, {}, {"m"}),
        (move(instance_uuid="gone"), {}, set()),
        (MOVE, {"deleted": True}, set()),
        (move(status="confirmed"), {}, set()),
        (MOVE, {"task_state": None}, set()),
        (MOVE, {"host": "b", "node": "b1"}, set()),
        (MOVE, {"host": "b", "node": "b2"}, {"m"}),
        (move(dest_node="b2"), {}, set()),
    ],
)
def test_moves_in_progress_hold_resources(migration: Migration, changes: dict[str, Any], held: set[str]) -> None:
    assert held_on_b(migration, **changes).keys() == held


def test_a_move_of_another_instance_does_not_end_the_list() -> None:
    assert held_on_b(move(uuid="other", instance_uuid="gone"), MOVE).keys() == {"m"}


@pytest.mark.parametrize(
    ("first", "second", "newest"),
    [
        ({"updated_at": NOON}, {"updated_at": NOON - timedelta(1)}, "first"),
        ({"updated_at": NOON}, {"updated_at": NOON + timedelta(1)}, "second"),
        ({"created_at": NOON}, {"updated_at": NOON - timedelta(1), "created_at": NOON + timedelta(1)}, "first"),
        ({"created_at": NOON}, {"created_at": NOON}, "second"),
        ({"created_at": NOON}, {}, "first"),
        ({}, {}, "second"),
    ],
)
def test_of_several_moves_of_an_instance_the_newest_counts(
    first: dict[str, Any], second: dict[str, Any], newest: str
) -> None:
    assert held_on_b(move(uuid="first", **first), move(uuid="second", **second)).keys() == {newest}
