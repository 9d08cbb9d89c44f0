"""The inventories that a node offers to Placement. Pure."""

from typing import NamedTuple

import msgspec

from minova.errors import InvalidConfiguration
from minova.objects.hosts.compute_node import AvailableResources, ComputeNode, Inventory


class ReservedResources(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that the host keeps for itself (`reserved_host_*`)."""

    memory_mb: int = 0
    disk_gb: int = 0
    vcpus: int = 0


def require_capacity(view: AvailableResources, reserved: ReservedResources) -> None:
    """Raises InvalidConfiguration if more is reserved than the node has: the node could take no guest, and nothing
    would say why.
    """
    for option, amount, total in (
        ("reserved_host_memory_mb", reserved.memory_mb, view.memory_mb),
        ("reserved_host_disk_mb", reserved.disk_gb * 1024, view.local_gb * 1024),
        ("reserved_host_cpus", reserved.vcpus, view.vcpus),
    ):
        if amount > total:
            raise InvalidConfiguration(f"[DEFAULT] {option} = {amount}: node {view.hypervisor_hostname} has {total}")


class ConfiguredRatios(msgspec.Struct, frozen=True, kw_only=True):
    """Allocation ratios: `None` or 0 where the operator set none. `initial_*` are the ratios with which a new node
    begins.
    """

    cpu: float | None = None
    ram: float | None = None
    disk: float | None = None
    initial_cpu: float = 4.0
    initial_ram: float = 1.0
    initial_disk: float = 1.0


class AllocationRatios(NamedTuple):
    cpu: float
    ram: float
    disk: float


def ratios_for(ratios: ConfiguredRatios, row: ComputeNode | None) -> AllocationRatios:
    """Returns the ratios by Nova's rule: the operator's, else the one that the node has in Placement, else the initial
    one.

    `row` is the node with the ratios of its inventories.
    """
    fallbacks = (
        (row.cpu_allocation_ratio, row.ram_allocation_ratio, row.disk_allocation_ratio)
        if row is not None
        else (ratios.initial_cpu, ratios.initial_ram, ratios.initial_disk)
    )
    return AllocationRatios(ratios.cpu or fallbacks[0], ratios.ram or fallbacks[1], ratios.disk or fallbacks[2])


def inventories_of(
    view: AvailableResources, node: ComputeNode, reserved: ReservedResources, ratios: ConfiguredRatios
) -> tuple[Inventory, ...]:
    """Returns one inventory for each resource class of which the node has any, with the node's ratios. `keeps_ratio`
    marks ratios that the operator has not set on this host.
    """
    offered = (
        ("VCPU", view.vcpus, reserved.vcpus, node.cpu_allocation_ratio, not ratios.cpu),
        ("PCPU", view.pcpus, 0, 1.0, False),
        ("VGPU", sum(view.gpus.values()) or view.vgpus, 0, 1.0, False),
        ("MEM_ENCRYPTION_CONTEXT", view.memory_encryption_contexts, 0, 1.0, False),
        ("MEMORY_MB", view.memory_mb, reserved.memory_mb, node.ram_allocation_ratio, not ratios.ram),
        ("DISK_GB", view.local_gb, reserved.disk_gb, node.disk_allocation_ratio, not ratios.disk),
    )
    return tuple(
        Inventory(
            resource_class=name,
            total=total,
            reserved=min(reserved_amount, total),
            max_unit=total,
            allocation_ratio=ratio,
            keeps_ratio=keeps,
            children=tuple(sorted(view.gpus.items())) if name == "VGPU" else (),
        )
        for name, total, reserved_amount, ratio, keeps in offered
        if total > 0
    )
