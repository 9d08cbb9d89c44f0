"""The usage of one node between audits: its figures, and the instances and migrations that cause them.

Pure: each step returns a new NodeUsage.

An audit creates a NodeUsage from the rows. Claims, removals and migrations change it by the same steps of `usage`, so
that both ways must lead to the same figures.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from minova.compute.accounting import usage
from minova.compute.accounting.inventories import ReservedResources
from minova.compute.accounting.migrations import MigrationSide, holds_resources, is_moving, side_of
from minova.compute.accounting.usage import TrackedInstance, Usage
from minova.hardware import pci_devices
from minova.objects.catalogue.flavor import Flavor, Overhead
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.hosts.pci import PciDevice
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import Migration

V = TypeVar("V")
replace = msgspec.structs.replace


class TrackedMigration(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that one end of a migration holds on this node, beside those of its instance."""

    side: MigrationSide
    usage: Usage

    @property
    def instance_uuid(self) -> str:
        return self.side.migration.instance_uuid


class NodeUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of one node.

    `instances` and `migrations` are keyed by uuid.
    `orphans` is the usage of guests without a row on the node.
    The node's figures include `reserved`.
    """

    node: ComputeNode
    reserved: ReservedResources = ReservedResources()
    instances: dict[str, TrackedInstance] = {}
    migrations: dict[str, TrackedMigration] = {}
    orphans: dict[str, Usage] = {}


def with_reserved(node_usage: NodeUsage, reserved: ReservedResources) -> NodeUsage:
    """Returns the usage with `reserved` in place of the previous reserved amounts."""
    before = node_usage.reserved
    more = Usage(
        memory_mb=reserved.memory_mb - before.memory_mb,
        disk_gb=reserved.disk_gb - before.disk_gb,
        vcpus=reserved.vcpus - before.vcpus,
    )
    return replace(node_usage, node=usage.with_resources(node_usage.node, more), reserved=reserved)


def with_instance(node_usage: NodeUsage, tracked: TrackedInstance) -> NodeUsage:
    """Returns the usage with the instance. Its previous usage, or that of its orphaned domain, is subtracted first."""
    before = without_instance(node_usage, tracked.instance.uuid)
    node = usage.with_added(before.node, tracked)
    return replace(before, node=node, instances={**before.instances, tracked.instance.uuid: tracked})


def without_instance(node_usage: NodeUsage, instance_uuid: str) -> NodeUsage:
    """Returns the usage without the instance, whether it is tracked or an orphan. It keeps its devices."""
    node = node_usage.node
    tracked = node_usage.instances.get(instance_uuid)
    if tracked is not None:
        node = usage.with_removed(node, tracked)
    orphan = node_usage.orphans.get(instance_uuid)
    if orphan is not None:
        node = usage.with_resources(node, orphan, -1)
    return replace(
        node_usage,
        node=node,
        instances=_without(node_usage.instances, instance_uuid),
        orphans=_without(node_usage.orphans, instance_uuid),
    )


def with_updated_instance(node_usage: NodeUsage, instance: Instance) -> NodeUsage:
    """Returns the usage with the new state of a tracked instance."""
    tracked = node_usage.instances.get(instance.uuid)
    if tracked is None:
        return node_usage
    changed = TrackedInstance(instance=instance, usage=tracked.usage)
    node = usage.with_added(usage.with_removed(node_usage.node, tracked), changed)
    return replace(node_usage, node=node, instances={**node_usage.instances, instance.uuid: changed})


def with_orphan(node_usage: NodeUsage, uuid: str, used: Usage) -> NodeUsage:
    """Returns the usage with a guest that has no row on the node. Raises CPUPinningInvalid or CPUPinningUnknown if its
    CPUs are another guest's.
    """
    node = usage.with_resources(node_usage.node, used)
    return replace(node_usage, node=node, orphans={**node_usage.orphans, uuid: used})


def with_migration(node_usage: NodeUsage, tracked: TrackedMigration) -> NodeUsage:
    """Returns the usage with a move that holds resources here. Idempotent: a move that is added again replaces
    itself.
    """
    uuid = tracked.side.migration.uuid
    before = without_migration(node_usage, uuid)
    node = usage.with_resources(before.node, tracked.usage)
    return replace(before, node=node, migrations={**before.migrations, uuid: tracked})


def without_migration(node_usage: NodeUsage, migration_uuid: str) -> NodeUsage:
    tracked = node_usage.migrations.get(migration_uuid)
    if tracked is None:
        return node_usage
    node = usage.with_resources(node_usage.node, tracked.usage, -1)
    return replace(node_usage, node=node, migrations=_without(node_usage.migrations, migration_uuid))


def after_migration_step(
    node_usage: NodeUsage,
    instance: Instance,
    migration: Migration,
    place: tuple[str, str],
    overhead: Callable[[Flavor], Overhead],
) -> NodeUsage:
    """Returns the usage of the node `place` (host, node) after a step or the end of a migration."""
    is_here = holds_resources(instance, *place)
    # Remove both first: resources that belonged to the side a moment ago may belong to the instance now, down to the
    # same CPUs.
    node_usage = without_migration(without_instance(node_usage, instance.uuid), migration.uuid)
    if is_here:
        numa = instance.numa_topology
        tracked = TrackedInstance(
            instance=instance, usage=usage.usage_of(instance.flavor, overhead(instance.flavor), numa)
        )
        node_usage = with_instance(node_usage, tracked)
    moving = migration.in_progress and not instance.deleted and is_moving(instance, migration)
    side = side_of(migration, is_here, *place) if moving else None
    if side is not None:
        node_usage = with_migration(node_usage, tracked_migration(side, overhead))
    return _devices_after_step(node_usage, instance.uuid, migration, place, here=is_here, moving=moving)


def tracked_migration(side: MigrationSide, overhead: Callable[[Flavor], Overhead]) -> TrackedMigration:
    used = usage.usage_of(side.flavor, overhead(side.flavor), side.numa_topology)
    if side.beside is not None:
        used = usage.beyond(used, usage.usage_of(side.beside, overhead(side.beside)))
    return TrackedMigration(side=side, usage=used)


def _devices_after_step(
    node_usage: NodeUsage, instance_uuid: str, migration: Migration, place: tuple[str, str], *, here: bool, moving: bool
) -> NodeUsage:
    """Update the devices after a step. Claimed devices belong to the new side, allocated ones to the old side. When the
    move is over, the remaining devices are allocated.
    """
    is_local = migration.source == migration.dest == place
    if moving:
        return with_allocated(node_usage, instance_uuid) if here and migration.switched and not is_local else node_usage
    if not here:
        return with_freed(node_usage, instance_uuid)
    if migration.dest != place or not migration.succeeded:
        return with_freed(node_usage, instance_uuid, pci_devices.CLAIMED)
    if is_local:
        node_usage = with_freed(node_usage, instance_uuid, pci_devices.ALLOCATED, pci_devices.REMOVED)
    return with_allocated(node_usage, instance_uuid)


# -- devices -----------------------------------------------------------------------------------------------------------


def with_devices(node: ComputeNode, devices: Iterable[PciDevice]) -> ComputeNode:
    """Returns the node with these devices, and with the pools of those that are free."""
    all_devices = tuple(devices)
    return replace(node, pci_devices=all_devices, pci_device_pools=pci_devices.pools_of(all_devices))


def with_claimed(node_usage: NodeUsage, instance_uuid: str, taken: Mapping[str, str | None]) -> NodeUsage:
    """Returns the usage with these devices claimed. `taken` is {address: request id}. Raises ValueError if a device is
    not free.
    """
    return (
        _devices(node_usage, pci_devices.claimed(node_usage.node.pci_devices, instance_uuid, taken))
        if taken
        else node_usage
    )


def with_allocated(node_usage: NodeUsage, instance_uuid: str) -> NodeUsage:
    return _devices(node_usage, pci_devices.allocated(node_usage.node.pci_devices, instance_uuid))


def with_freed(node_usage: NodeUsage, instance_uuid: str, *statuses: str) -> NodeUsage:
    """Returns the usage with devices of the instance freed: those in one of `statuses`, or by default all."""
    if not any(device.instance_uuid == instance_uuid for device in node_usage.node.pci_devices):
        return node_usage
    return _devices(node_usage, pci_devices.freed(node_usage.node.pci_devices, instance_uuid, *statuses))


def _devices(node_usage: NodeUsage, devices: Iterable[PciDevice]) -> NodeUsage:
    return replace(node_usage, node=with_devices(node_usage.node, devices))


def _without(values: Mapping[str, V], key: str) -> dict[str, V]:
    return {name: value for name, value in values.items() if name != key}
