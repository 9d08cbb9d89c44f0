"""What is kept of one node between audits: the node's figures, and who is behind them. Pure: each step answers new books.

An audit opens new books from the rows; claims, removals and moves change them by the same steps of `usage`, so that
both ways must come to the same figures.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from minova.compute.accounting import usage
from minova.compute.accounting.inventories import Reserved
from minova.compute.accounting.migrations import MigrationSide, holds_resources, is_moving, side_of
from minova.compute.accounting.usage import Overhead, TrackedInstance, Usage
from minova.hardware import pci_devices
from minova.objects.compute_node import ComputeNode
from minova.objects.flavor import Flavor
from minova.objects.instance import Instance
from minova.objects.migration import Migration
from minova.objects.pci import PciDevice

V = TypeVar("V")
replace = msgspec.structs.replace


class TrackedMigration(msgspec.Struct, frozen=True, kw_only=True):
    """What one end of a migration holds here, beside its instance."""

    side: MigrationSide
    usage: Usage

    @property
    def instance_uuid(self) -> str:
        return self.side.migration.instance_uuid


class NodeUsage(msgspec.Struct, frozen=True, kw_only=True):
    """`held` by instance, `sides` by migration; `orphans`: memory in MB of domains that no row knows. `reserved` is in the
    node's figures.
    """

    node: ComputeNode
    reserved: Reserved = Reserved()
    held: dict[str, TrackedInstance] = {}
    sides: dict[str, TrackedMigration] = {}
    orphans: dict[str, int] = {}


def with_reserved(books: NodeUsage, reserved: Reserved) -> NodeUsage:
    """The host keeps this much for itself, and no longer what it did."""
    before = books.reserved
    more = Usage(
        memory_mb=reserved.memory_mb - before.memory_mb,
        disk_gb=reserved.disk_gb - before.disk_gb,
        vcpus=reserved.vcpus - before.vcpus,
    )
    return replace(books, node=usage.with_resources(books.node, more), reserved=reserved)


def with_instance(books: NodeUsage, held: TrackedInstance) -> NodeUsage:
    """An instance came. What it had before, or its domain held for nobody, is taken off first."""
    before = without_instance(books, held.instance.uuid)
    node = usage.with_added(before.node, held)
    return replace(before, node=node, held={**before.held, held.instance.uuid: held})


def without_instance(books: NodeUsage, instance_uuid: str) -> NodeUsage:
    """It holds nothing here any more, neither as an instance nor as an orphan. Its devices it keeps."""
    node = books.node
    held = books.held.get(instance_uuid)
    if held is not None:
        node = usage.with_removed(node, held)
    memory_mb = books.orphans.get(instance_uuid, 0)
    if memory_mb:
        node = usage.with_memory(node, -memory_mb)
    return replace(
        books, node=node, held=_without(books.held, instance_uuid), orphans=_without(books.orphans, instance_uuid)
    )


def with_updated_instance(books: NodeUsage, instance: Instance) -> NodeUsage:
    """A held instance changed its state."""
    held = books.held.get(instance.uuid)
    if held is None:
        return books
    changed = TrackedInstance(instance=instance, usage=held.usage)
    node = usage.with_added(usage.with_removed(books.node, held), changed)
    return replace(books, node=node, held={**books.held, instance.uuid: changed})


def with_migration(books: NodeUsage, held: TrackedMigration) -> NodeUsage:
    """A move holds something here. Noted again, it takes its own place."""
    uuid = held.side.migration.uuid
    before = without_migration(books, uuid)
    node = usage.with_resources(before.node, held.usage)
    return replace(before, node=node, sides={**before.sides, uuid: held})


def without_migration(books: NodeUsage, migration_uuid: str) -> NodeUsage:
    held = books.sides.get(migration_uuid)
    if held is None:
        return books
    node = usage.with_resources(books.node, held.usage, -1)
    return replace(books, node=node, sides=_without(books.sides, migration_uuid))


def after_migration_step(
    books: NodeUsage,
    instance: Instance,
    migration: Migration,
    place: tuple[str, str],
    overhead: Callable[[Flavor], Overhead],
) -> NodeUsage:
    """The books of the node `place` (host, node) once a move has taken a step there or ended."""
    here = holds_resources(instance, *place)
    # Both at once: what was the side's a moment ago may be the instance's now, down to the CPU.
    books = without_migration(without_instance(books, instance.uuid), migration.uuid)
    if here:
        numa = instance.numa_topology
        found = TrackedInstance(
            instance=instance, usage=usage.usage_of(instance.flavor, overhead(instance.flavor), numa)
        )
        books = with_instance(books, found)
    moving = migration.in_progress and not instance.deleted and is_moving(instance, migration)
    side = side_of(migration, here, *place) if moving else None
    if side is not None:
        books = with_migration(books, tracked_migration(side, overhead))
    return _devices_after_move(books, instance.uuid, migration, place, here=here, moving=moving)


def tracked_migration(side: MigrationSide, overhead: Callable[[Flavor], Overhead]) -> TrackedMigration:
    return TrackedMigration(side=side, usage=usage.usage_of(side.flavor, overhead(side.flavor), side.numa_topology))


def _devices_after_move(
    books: NodeUsage, instance_uuid: str, migration: Migration, place: tuple[str, str], *, here: bool, moving: bool
) -> NodeUsage:
    """Claimed devices are the new side's, allocated ones the old's; what is left when all is over is allocated."""
    both = migration.source == migration.dest == place
    if moving:
        return with_allocated(books, instance_uuid) if here and migration.switched and not both else books
    if not here:
        return with_freed(books, instance_uuid)
    if migration.dest != place or not migration.succeeded:
        return with_freed(books, instance_uuid, pci_devices.CLAIMED)
    if both:
        books = with_freed(books, instance_uuid, pci_devices.ALLOCATED, pci_devices.REMOVED)
    return with_allocated(books, instance_uuid)


# -- devices -----------------------------------------------------------------------------------------------------------


def with_devices(node: ComputeNode, devices: Iterable[PciDevice]) -> ComputeNode:
    """The node with these devices, and the pools of what of them is free."""
    every = tuple(devices)
    return replace(node, pci_devices=every, pci_device_pools=pci_devices.pools_of(every))


def with_claimed(books: NodeUsage, instance_uuid: str, taken: Mapping[str, str | None]) -> NodeUsage:
    """`taken`: {address: request id}. ValueError: one of them is not free."""
    return _devices(books, pci_devices.claimed(books.node.pci_devices, instance_uuid, taken)) if taken else books


def with_allocated(books: NodeUsage, instance_uuid: str) -> NodeUsage:
    return _devices(books, pci_devices.allocated(books.node.pci_devices, instance_uuid))


def with_freed(books: NodeUsage, instance_uuid: str, *statuses: str) -> NodeUsage:
    """`statuses`: only devices in one of these; default: all of the instance's."""
    if not any(device.instance_uuid == instance_uuid for device in books.node.pci_devices):
        return books
    return _devices(books, pci_devices.freed(books.node.pci_devices, instance_uuid, *statuses))


def _devices(books: NodeUsage, devices: Iterable[PciDevice]) -> NodeUsage:
    return replace(books, node=with_devices(books.node, devices))


def _without(values: Mapping[str, V], key: str) -> dict[str, V]:
    return {name: value for name, value in values.items() if name != key}
