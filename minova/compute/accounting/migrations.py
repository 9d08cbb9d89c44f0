"""What a migration holds on a node beside its instance. Pure; Nova's rules.

The instance counts where its row says it is, with the flavor its row has. A move in progress holds the other side too:
at the destination the new size until the instance is there, at the source the old one for a possible way back. On one
node alone, a resize holds whichever of the two the instance has not.
"""

from collections.abc import Iterable, Mapping

import msgspec

from minova.objects.flavor import Flavor
from minova.objects.instance import Instance
from minova.objects.migration import Migration, MigrationType
from minova.objects.numa import InstanceNUMATopology
from minova.objects.states import TaskState, VmState, is_resource_free

# An instance in none of these is not moving, whatever its migration's row says.
_RESIZING = frozenset(
    {
        TaskState.RESIZE_PREP,
        TaskState.RESIZE_MIGRATING,
        TaskState.RESIZE_MIGRATED,
        TaskState.RESIZE_FINISH,
        TaskState.RESIZE_REVERTING,
        TaskState.RESIZE_CONFIRMING,
    }
)
_REBUILDING = frozenset({TaskState.REBUILDING, TaskState.REBUILD_BLOCK_DEVICE_MAPPING, TaskState.REBUILD_SPAWNING})


def holds_resources(instance: Instance, host: str, node: str) -> bool:
    """Whether the instance counts on this node."""
    return (
        not instance.deleted
        and not is_resource_free(instance.vm_state, instance.task_state)
        and instance.host == host
        and instance.node == node
    )


class MigrationSide(msgspec.Struct, frozen=True, kw_only=True):
    """What one end of a migration holds."""

    migration: Migration
    flavor: Flavor
    numa_topology: InstanceNUMATopology | None


def sides_held(
    migrations: Iterable[Migration], instances: Mapping[str, Instance], host: str, node: str
) -> dict[str, MigrationSide]:
    """By migration uuid, what is held on this node beside the instances. `instances` are those that the migrations move,
    by uuid, wherever they are; one that is not among them is gone. Of several moves of an instance the newest counts.
    """
    newest: dict[str, Migration] = {}
    for migration in migrations:
        known = newest.get(migration.instance_uuid)
        if known is None or _age(migration) >= _age(known):
            newest[migration.instance_uuid] = migration
    sides = {}
    for migration in newest.values():
        instance = instances.get(migration.instance_uuid)
        if instance is None or instance.deleted or not migration.in_progress or not is_moving(instance, migration):
            continue
        side = side_of(migration, (instance.host, instance.node) == (host, node), host, node)
        if side is not None:
            sides[migration.uuid] = side
    return sides


def side_of(migration: Migration, here: bool, host: str, node: str) -> MigrationSide | None:
    """What the migration holds on this node; `here`: the instance itself counts there already."""
    incoming, outgoing = migration.dest == (host, node), migration.source == (host, node)
    new = MigrationSide(migration=migration, flavor=migration.new_flavor, numa_topology=migration.new_numa_topology)
    old = MigrationSide(migration=migration, flavor=migration.old_flavor, numa_topology=migration.old_numa_topology)
    if incoming and outgoing:
        return old if migration.switched else new
    if here:
        return None
    return new if incoming else old if outgoing else None


def is_moving(instance: Instance, migration: Migration) -> bool:
    """Whether the instance's own state says that it is being moved, or was and may yet go back."""
    state, task = instance.vm_state, instance.task_state
    if state is VmState.RESIZED:
        return True
    if migration.migration_type is MigrationType.EVACUATION:
        return task in _REBUILDING
    if migration.migration_type is MigrationType.LIVE_MIGRATION:
        return task is TaskState.MIGRATING
    return state in {VmState.ACTIVE, VmState.STOPPED} and task in _RESIZING


def _age(migration: Migration) -> str:
    """Comparable, also where a row was never updated."""
    at = migration.updated_at or migration.created_at
    return at.isoformat() if at is not None else ""
