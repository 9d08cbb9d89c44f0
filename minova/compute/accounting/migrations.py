"""The resources that a migration holds on a node beside its instance. Pure; Nova's rules.

The instance counts on the node that its row names, with the flavor of its row. A move in progress also holds the other
side: at the destination the new size until the instance is there, at the source the old size for a possible revert. A
resize within one node holds what the one of the two sizes that the instance does not have takes beyond the other: both
together are the larger size. With NUMA cells it holds that size whole.
"""

from collections.abc import Iterable, Mapping

import msgspec

from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import Migration, MigrationType
from minova.objects.servers.states import TaskState, VmState, is_resource_free

# An instance in none of these task states is not moving, whatever its migration's row says.
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
    """The resources that one end of a migration holds. `beside`: the size that counts here already, so that only what `flavor` takes
    beyond it is held.
    """

    migration: Migration
    flavor: Flavor
    numa_topology: InstanceNUMATopology | None
    beside: Flavor | None = None


def sides_held(
    migrations: Iterable[Migration], instances: Mapping[str, Instance], host: str, node: str
) -> dict[str, MigrationSide]:
    """Returns by migration uuid what is held on this node beside the instances.

    `instances` contains by uuid the instances that the migrations move, on any host; an instance that is not in it is
    gone. If an instance has several moves, the newest counts.
    """
    newest: dict[str, Migration] = {}
    for migration in migrations:
        previous = newest.get(migration.instance_uuid)
        if previous is None or _age(migration) >= _age(previous):
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
    """Returns what the migration holds on this node, if anything. `here`: the instance itself counts there already."""
    incoming, outgoing = migration.dest == (host, node), migration.source == (host, node)
    new = MigrationSide(migration=migration, flavor=migration.new_flavor, numa_topology=migration.new_numa_topology)
    old = MigrationSide(migration=migration, flavor=migration.old_flavor, numa_topology=migration.old_numa_topology)
    if incoming and outgoing:
        counted, other = (old, new) if migration.switched else (new, old)
        return msgspec.structs.replace(counted, beside=other.flavor) if migration.counts_larger else counted
    if here:
        return None
    return new if incoming else old if outgoing else None


def is_moving(instance: Instance, migration: Migration) -> bool:
    """Whether the instance's own state says that it is being moved, or that it was moved and may still be reverted."""
    state, task = instance.vm_state, instance.task_state
    if state is VmState.RESIZED:
        return True
    if migration.migration_type is MigrationType.EVACUATION:
        return task in _REBUILDING
    if migration.migration_type is MigrationType.LIVE_MIGRATION:
        return task is TaskState.MIGRATING
    return state in {VmState.ACTIVE, VmState.STOPPED} and task in _RESIZING


def _age(migration: Migration) -> str:
    """Returns a comparable time, also for a row that was never updated."""
    at = migration.updated_at or migration.created_at
    return at.isoformat() if at is not None else ""
