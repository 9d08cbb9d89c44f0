"""A hypervisor node, as the driver sees it and as the tracker keeps it."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from minova.objects.hosts.bounds import (
    MAX_BRIDGES,
    MAX_COUNT,
    MAX_DEVICES,
    MAX_GUESTS,
    MAX_NAMES,
    MAX_NODES,
    Count,
    Document,
    Figure,
    Id,
    Line,
    Name,
    PowerNumber,
    Ratio,
)
from minova.objects.hosts.numa import NUMATopology
from minova.objects.hosts.pci import PciDevice, PciDevicePool

# The largest number that a row can hold: a ratio may be so large that the product exceeds it.
MAX_CAPACITY = MAX_COUNT

Supported = Annotated[tuple[tuple[Line, Line, Line], ...], Meta(max_length=MAX_NAMES)]
# What computes offer. The scheduler has columns for each class.
ResourceClass = Annotated[str, Meta(pattern=r"\A(VCPU|PCPU|VGPU|MEM_ENCRYPTION_CONTEXT|MEMORY_MB|DISK_GB)\Z")]
Unit = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
Devices = Annotated[tuple[PciDevice, ...], Meta(max_length=MAX_DEVICES)]
Bridges = Annotated[dict[Line, Line], Meta(max_length=MAX_BRIDGES)]
# Only those that describe hardware and driver: an operator gives others.
Trait = Annotated[str, Meta(pattern=r"\A(COMPUTE|HW)_[A-Z0-9_]{1,240}\Z")]
Traits = Annotated[tuple[Trait, ...], Meta(max_length=MAX_NAMES)]


def clamped(number: int) -> int:
    """Returns the nearest number that a row can hold."""
    return max(-MAX_CAPACITY, min(number, MAX_CAPACITY))


class AvailableResources(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver reports of one node (`get_available_resource`). Memory in MB, disk in GB.

    `domains`: the UUIDs of all domains on the node, known to minova or not, with their memory in MB.
    `pci_devices`: the devices that instances may have, used or not.
    `pcpus`: CPUs reserved for pinned guests, in addition to the `vcpus`.
    `traits`: the node's capabilities, by Placement's names.
    `gpus`: how many virtual GPUs each card offers, by the card's name. `vgpus`: the number of a driver that does not
    report cards.
    `memory_encryption_contexts`: how many guests may have encrypted memory.
    `host_nodes`: all nodes that the driver reports for the host; empty if the sender does not report them.
    `bridges`: the existing bridges, by what they carry (`physical_networks`).
    """

    node: Line
    vcpus: Figure
    memory_mb: Figure
    memory_mb_used: Figure
    local_gb: Figure
    local_gb_used: Figure
    disk_available_least: Figure | None = None
    hypervisor_type: Line
    hypervisor_version: Count
    hypervisor_hostname: Line
    cpu_info: Document = ""
    supported_instances: Supported = ()
    numa_topology: NUMATopology | None = None
    pci_devices: Devices = ()
    pcpus: Figure = 0
    vgpus: Figure = 0
    gpus: Annotated[dict[Line, Count], Meta(max_length=MAX_NAMES)] = {}
    memory_encryption_contexts: Count = 0
    traits: Traits = ()
    domains: Annotated[tuple["DomainView", ...], Meta(max_length=MAX_GUESTS)] = ()
    host_nodes: Annotated[tuple[Line, ...], Meta(max_length=MAX_NODES)] = ()
    bridges: Bridges = {}


class DomainView(msgspec.Struct, frozen=True, kw_only=True):
    """One domain on the hypervisor. `ours`: it has minova's mark, whether or not there is a row for it.

    `reason`: why it is in its power state (`GuestReason`), where its driver says so.
    `accepted`: a conductor has accepted the report that its build succeeded.
    """

    uuid: Line
    name: Name
    memory_mb: Figure
    vcpus: Figure
    power_state: PowerNumber
    reason: Line = ""
    ours: bool = True
    attempt: Count | None = None
    accepted: bool = False


class ComputeNode(msgspec.Struct, frozen=True, kw_only=True):
    """Nova's `compute_nodes` row. `uuid` is also that of the node's resource provider. `generation` counts its writes.

    `pci_devices` are stored in a table of their own; the pools are the free ones.
    `writer_epoch`, `write_number`: order the writes: the process of the host that made this write, and the number of
    the write; 0 from releases that do not number them.
    `acknowledged`: the last of the process's earlier writes that was answered; an unanswered one may still arrive.
    `bridges`: as in AvailableResources.
    """

    uuid: Id
    host: Line
    hypervisor_hostname: Line
    id: Count = 0
    generation: Count = 0
    vcpus: Figure = 0
    memory_mb: Figure = 0
    local_gb: Figure = 0
    vcpus_used: Figure = 0
    memory_mb_used: Figure = 0
    local_gb_used: Figure = 0
    free_ram_mb: Figure = 0
    free_disk_gb: Figure = 0
    disk_available_least: Figure | None = None
    current_workload: Figure = 0
    running_vms: Figure = 0
    hypervisor_type: Line = ""
    hypervisor_version: Count = 0
    cpu_info: Document = ""
    supported_instances: Supported = ()
    host_ip: Line | None = None
    metrics: Annotated[tuple[dict[Line, Any], ...], Meta(max_length=MAX_NAMES)] = ()
    stats: Annotated[dict[Name, Line], Meta(max_length=4 * MAX_GUESTS)] = {}
    numa_topology: NUMATopology | None = None
    pci_device_pools: Annotated[tuple[PciDevicePool, ...], Meta(max_length=MAX_DEVICES)] = ()
    pci_devices: Devices = ()
    cpu_allocation_ratio: Ratio = 4.0
    ram_allocation_ratio: Ratio = 1.0
    disk_allocation_ratio: Ratio = 1.0
    writer_epoch: Count = 0
    write_number: Count = 0
    acknowledged: Count = 0
    bridges: Bridges = {}


_FIGURES = (
    "vcpus",
    "memory_mb",
    "local_gb",
    "vcpus_used",
    "memory_mb_used",
    "local_gb_used",
    "free_ram_mb",
    "free_disk_gb",
    "disk_available_least",
    "current_workload",
    "running_vms",
    "hypervisor_version",
)


def with_clamped_figures(node: ComputeNode) -> ComputeNode:
    """Returns the node with every number clamped to what its row can hold: one number that is too large would make the
    whole write fail.
    """
    beyond = {
        name: clamped(figure)
        for name in _FIGURES
        if (figure := getattr(node, name)) is not None and clamped(figure) != figure
    }
    return msgspec.structs.replace(node, **beyond) if beyond else node


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """Placement's record of one resource class of a provider. `capacity` = floor((total - reserved) * ratio).

    `keeps_ratio`: an existing inventory keeps its ratio, which may have been set through Placement.
    `children`: (name, total) of each part of the node that offers the class in a child provider of its own; the node's
    provider then offers none of it.
    """

    resource_class: ResourceClass
    total: Count
    reserved: Count = 0
    min_unit: Unit = 1
    max_unit: Count
    step_size: Unit = 1
    allocation_ratio: Ratio = 1.0
    keeps_ratio: bool = False
    children: Annotated[tuple[tuple[Line, Count], ...], Meta(max_length=MAX_NAMES)] = ()

    @property
    def capacity(self) -> int:
        return int(min((self.total - self.reserved) * self.allocation_ratio, MAX_CAPACITY))
