"""Computes the findings of an audit: the node's usage from scratch, and what is wrong. Pure.

driver's view + what the database knows ----> node row, and what to do:
                                              destroy unexpected domains, begin lost builds, report power states
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from minova.compute.accounting import node_usage, usage
from minova.compute.accounting.inventories import ConfiguredRatios, ReservedResources, inventories_of, ratios_for
from minova.compute.accounting.migrations import holds_resources, sides_held
from minova.compute.accounting.node_usage import NodeUsage, TrackedMigration
from minova.compute.accounting.orphans import orphans_of
from minova.compute.accounting.running_deleted import RunningDeleted
from minova.compute.accounting.usage import TrackedInstance, Usage
from minova.hardware import pci_devices
from minova.hardware.errors import CPUPinningInvalid, CPUPinningUnknown
from minova.objects.actions.power_rules import RowStates, differs, must_stop
from minova.objects.catalogue.flavor import Flavor, Overhead
from minova.objects.hosts.compute_node import AvailableResources, ComputeNode, DomainView, Inventory
from minova.objects.hosts.node_audit import Drift, NodeAudit
from minova.objects.servers.build import AuditInputs, BuildMessage
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState, VmState
from minova.objects.unexpected.guest_record import GuestRecord

_PINNING = (CPUPinningInvalid, CPUPinningUnknown)
replace = msgspec.structs.replace


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The configured settings of every node of a host. `packing`: fill up used NUMA cells first."""

    host: str
    host_ip: str | None = None
    reserved: ReservedResources = ReservedResources()
    ratios: ConfiguredRatios = ConfiguredRatios()
    packing: bool
    running_deleted: RunningDeleted = RunningDeleted()


class AuditResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an audit: the new usage, and what is to be done. Domains without a row count as orphans.

    - `conflicts`: facts in rows that cannot be true together.
    - `drift`: figures for which the tracker had other values.
    - `restored`: allocations that were corrected.
    - `unexpected_domains`: domains to destroy; they count as in use until they are gone.
    - `purged`: our domains of purged instances.
    - `evacuated`: see `AuditInputs`.
    - `outlived`: our domains of deleted instances, with the seconds since the deletion.
    - `power_states`: the rows' states of instances whose guests are in another state.
    - `to_stop`: domains of instances that must not run (`objects.power_rules`), with the states of their rows.
    """

    node_usage: NodeUsage
    inventories: tuple[Inventory, ...]
    conflicts: tuple[str, ...] = ()
    drift: tuple[Drift, ...] = ()
    restored: tuple[Drift, ...] = ()
    unexpected_domains: tuple[DomainView, ...]
    outlived: tuple[tuple[DomainView, float], ...] = ()
    purged: tuple[DomainView, ...] = ()
    evacuated: dict[str, int] = {}
    attempts: tuple[BuildMessage, ...]
    power_states: dict[str, RowStates]
    to_stop: tuple[tuple[DomainView, VmState], ...] = ()

    @property
    def record(self) -> NodeAudit:
        """The part of the finding that is stored for the API."""
        return NodeAudit(
            corrected=self.drift + self.restored,
            conflicts=self.conflicts,
            orphans={uuid: self.node_usage.orphans[uuid].memory_mb for uuid in sorted(self.node_usage.orphans)},
            unexpected_domains=tuple(domain.uuid for domain in (*self.unexpected_domains, *self.purged)),
            power_states=tuple(sorted(self.power_states)),
        )


def audit_node(
    view: AvailableResources,
    inputs: AuditInputs,
    settings: NodeSettings,
    *,
    new_uuid: str,
    overhead: Callable[[Flavor], Overhead],
    failed_builds: int = 0,
    metrics: tuple[dict[str, Any], ...] = (),
    records: Mapping[str, GuestRecord] = MappingProxyType({}),
    left_disks: Mapping[str, int] = MappingProxyType({}),
) -> AuditResult:
    """Audit one node. `new_uuid` becomes the node's uuid if it has no row yet; `overhead` returns what the hypervisor
    adds to a flavor. `records`, `left_disks`: see `orphans_of`.
    """
    tracked_instances = [
        TrackedInstance(
            instance=instance, usage=usage.usage_of(instance.flavor, overhead(instance.flavor), instance.numa_topology)
        )
        for instance in inputs.instances
        if holds_resources(instance, settings.host, view.hypervisor_hostname)
    ]
    moved = {instance.uuid: instance for instance in inputs.moved}
    sides = sides_held(inputs.migrations, moved, settings.host, view.hypervisor_hostname)
    expected = {tracked.instance.uuid for tracked in tracked_instances} | {
        message.instance.uuid for message in inputs.attempts
    }
    expected |= {side.migration.instance_uuid for side in sides.values()}
    orphans = orphans_of(view.domains, expected, records, left_disks)
    recorded_devices = inputs.node.pci_devices if inputs.node is not None else ()
    devices = pci_devices.kept_for(
        pci_devices.reconciled(recorded_devices, view.pci_devices), expected | orphans.keys()
    )
    bare = replace(bare_node(view, inputs.node, settings, new_uuid, failed_builds), metrics=metrics)
    node = node_usage.with_devices(bare, devices)
    opened = node_usage.NodeUsage(node=node, reserved=settings.reserved)
    opened, pinned_twice = _add_all(
        opened, tracked_instances, [node_usage.tracked_migration(side, overhead) for side in sides.values()]
    )
    opened, held_twice = _with_orphans(opened, orphans, records)
    # A guest that is newer than its row is in the state of its row's future.
    settled = [tracked.instance for tracked in tracked_instances if tracked.instance.uuid not in inputs.newer]
    return AuditResult(
        node_usage=opened,
        conflicts=(
            *pinned_twice,
            *held_twice,
            *inputs.conflicts,
            *oversized((tracked.instance for tracked in tracked_instances), view.domains),
        ),
        restored=inputs.restored,
        inventories=inventories_of(view, opened.node, settings.reserved, settings.ratios),
        unexpected_domains=tuple(
            domain for domain in view.domains if _to_destroy(domain, inputs, settings.running_deleted)
        ),
        outlived=tuple(
            (domain, inputs.deleted[domain.uuid])
            for domain in view.domains
            if domain.ours and domain.uuid in inputs.deleted
        ),
        purged=tuple(domain for domain in view.domains if domain.ours and domain.uuid in inputs.purged),
        evacuated=inputs.evacuated,
        attempts=inputs.attempts,
        power_states=differing(settled, view.domains),
        to_stop=to_stop(settled, view.domains),
    )


def _to_destroy(domain: DomainView, inputs: AuditInputs, policy: RunningDeleted) -> bool:
    if domain.uuid not in inputs.unexpected_domains or not domain.ours:
        return False
    return domain.uuid not in inputs.deleted or policy.reaps(inputs.deleted[domain.uuid])


def _add_all(
    opened: NodeUsage, held: Iterable[TrackedInstance], sides: Iterable[TrackedMigration]
) -> tuple[NodeUsage, tuple[str, ...]]:
    """Add all instances and migration sides. One whose CPUs are taken already counts without its cells: an audit must
    complete.
    """
    conflicts = []
    for tracked in held:
        try:
            opened = node_usage.with_instance(opened, tracked)
        except _PINNING as error:
            conflicts.append(f"instance {tracked.instance.uuid} has what another has: {error}")
            opened = node_usage.with_instance(opened, replace(tracked, usage=replace(tracked.usage, numa=None)))
    for side in sides:
        try:
            opened = node_usage.with_migration(opened, side)
        except _PINNING as error:
            conflicts.append(f"migration {side.side.migration.uuid} holds what another has: {error}")
            opened = node_usage.with_migration(opened, replace(side, usage=replace(side.usage, numa=None)))
    return opened, tuple(conflicts)


def _with_orphans(
    opened: NodeUsage, orphans: Mapping[str, Usage], records: Mapping[str, GuestRecord]
) -> tuple[NodeUsage, tuple[str, ...]]:
    """Add guests without a row, with the devices that they have. One whose CPUs or devices another instance has counts
    without them.
    """
    conflicts = []
    for uuid, used in sorted(orphans.items()):
        try:
            opened = node_usage.with_orphan(opened, uuid, used)
        except _PINNING as error:
            conflicts.append(f"guest {uuid}, which has no row here, has what another has: {error}")
            opened = node_usage.with_orphan(opened, uuid, replace(used, numa=None))
        devices = records[uuid].instance.pci_devices if uuid in records else ()
        owned = {device.address for device in opened.node.pci_devices if device.instance_uuid == uuid}
        requests_by_address = {device.address: device.request_id for device in devices if device.address not in owned}
        try:
            opened = node_usage.with_allocated(node_usage.with_claimed(opened, uuid, requests_by_address), uuid)
        except ValueError as error:
            conflicts.append(f"guest {uuid}, which has no row here, has what another has: {error}")
    return opened, tuple(conflicts)


def differing(instances: Iterable[Instance], domains: Iterable[DomainView]) -> dict[str, RowStates]:
    """Returns the rows' states of idle instances whose domain is in another state (`objects.power_rules`), or is missing."""
    power_states = {domain.uuid: PowerState(domain.power_state) for domain in domains}
    in_rows = {
        instance.uuid: RowStates(instance.vm_state, instance.power_state)
        for instance in instances
        if instance.task_state is None
    }
    return {
        uuid: in_row for uuid, in_row in in_rows.items() if differs(in_row, power_states.get(uuid, PowerState.NOSTATE))
    }


def to_stop(instances: Iterable[Instance], domains: Iterable[DomainView]) -> tuple[tuple[DomainView, VmState], ...]:
    """Returns domains of idle instances that this host must stop, with the states of their rows."""
    own_domains = {domain.uuid: domain for domain in domains if domain.ours}
    return tuple(
        (own_domains[instance.uuid], instance.vm_state)
        for instance in instances
        if instance.task_state is None
        and instance.uuid in own_domains
        and must_stop(instance.vm_state, PowerState(own_domains[instance.uuid].power_state))
    )


def oversized(instances: Iterable[Instance], domains: Iterable[DomainView]) -> list[str]:
    """Returns a conflict for each idle instance whose domain has more memory than its row counts: memory that others
    may claim is not free.
    """
    has = {domain.uuid: domain.memory_mb for domain in domains}
    return [
        f"the domain of instance {instance.uuid} has {has[instance.uuid]} MB, its flavor {instance.flavor.memory_mb} MB"
        for instance in instances
        if instance.task_state is None and has.get(instance.uuid, 0) > instance.flavor.memory_mb
    ]


def bare_node(
    view: AvailableResources, row: ComputeNode | None, settings: NodeSettings, new_uuid: str, failed_builds: int
) -> ComputeNode:
    """Returns the node with the reserved resources and without instances. Values that only the row contains are
    kept.
    """
    reserved = settings.reserved
    cpu, ram, disk = ratios_for(settings.ratios, row)
    return ComputeNode(
        uuid=row.uuid if row is not None else new_uuid,
        id=row.id if row is not None else 0,
        generation=row.generation if row is not None else 0,
        host=settings.host,
        host_ip=settings.host_ip,
        hypervisor_hostname=view.hypervisor_hostname,
        vcpus=view.vcpus,
        memory_mb=view.memory_mb,
        local_gb=view.local_gb,
        vcpus_used=reserved.vcpus,
        memory_mb_used=reserved.memory_mb,
        local_gb_used=reserved.disk_gb,
        free_ram_mb=view.memory_mb - reserved.memory_mb,
        free_disk_gb=view.local_gb - reserved.disk_gb,
        disk_available_least=view.disk_available_least,
        hypervisor_type=view.hypervisor_type,
        hypervisor_version=view.hypervisor_version,
        cpu_info=view.cpu_info,
        supported_instances=view.supported_instances,
        numa_topology=view.numa_topology,
        cpu_allocation_ratio=cpu,
        ram_allocation_ratio=ram,
        disk_allocation_ratio=disk,
        stats=usage.empty_stats(failed_builds),
        bridges=view.bridges,
    )
