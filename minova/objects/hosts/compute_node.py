"""A hypervisor node, as the driver sees it and as the tracker keeps it."""

from typing import Any

import msgspec

from minova.objects.hosts.numa import NUMATopology
from minova.objects.hosts.pci import PciDevice, PciDevicePool

# The largest number that a row can hold: a ratio may be so large that the product exceeds it.
MAX_CAPACITY = 2**31 - 1


def clamped(number: int) -> int:
    """Returns the nearest number that a row can hold."""
    return max(-MAX_CAPACITY, min(number, MAX_CAPACITY))


class HypervisorView(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver reports of one node (`get_available_resource`). Memory in MB, disk in GB.

    `domains`: the UUIDs of all domains on the node, known to minova or not, with their memory in MB.
    `pci_devices`: the devices that instances may have, used or not.
    `pcpus`: CPUs reserved for pinned guests, in addition to the `vcpus`.
    `traits`: the node's capabilities, by Placement's names.
    `gpus`: how many virtual GPUs each card offers, by the card's name. `vgpus`: the number of a driver that does not
    report cards.
    `host_nodes`: all nodes that the driver reports for the host; empty if the sender does not report them.
    `bridges`: the existing bridges, by what they carry (`physical_networks`).
    """

    node: str
    vcpus: int
    memory_mb: int
    memory_mb_used: int
    local_gb: int
    local_gb_used: int
    disk_available_least: int | None = None
    hypervisor_type: str
    hypervisor_version: int
    hypervisor_hostname: str
    cpu_info: str = ""
    supported_instances: tuple[tuple[str, str, str], ...] = ()
    numa_topology: NUMATopology | None = None
    pci_devices: tuple[PciDevice, ...] = ()
    pcpus: int = 0
    vgpus: int = 0
    gpus: dict[str, int] = {}
    traits: tuple[str, ...] = ()
    domains: tuple["DomainView", ...] = ()
    host_nodes: tuple[str, ...] = ()
    bridges: dict[str, str] = {}


class DomainView(msgspec.Struct, frozen=True, kw_only=True):
    """One domain on the hypervisor. `ours`: it has minova's mark, whether or not there is a row for it.

    `reason`: why it is in its power state (`GuestReason`), where its driver says so.
    `accepted`: a conductor has accepted the report that its build succeeded.
    """

    uuid: str
    name: str
    memory_mb: int
    vcpus: int
    power_state: int
    reason: str = ""
    ours: bool = True
    attempt: int | None = None
    accepted: bool = False


class ComputeNode(msgspec.Struct, frozen=True, kw_only=True):
    """Nova's `compute_nodes` row. `uuid` is also that of the node's resource provider. `generation` counts its writes.

    `pci_devices` are stored in a table of their own; the pools are the free ones.
    `writer_epoch`, `write_number`: order the writes: the process of the host that made this write, and the number of
    the write; 0 from releases that do not number them.
    `acknowledged`: the last of the process's earlier writes that was answered; an unanswered one may still arrive.
    `bridges`: as in HypervisorView.
    """

    uuid: str
    host: str
    hypervisor_hostname: str
    id: int = 0
    generation: int = 0
    vcpus: int = 0
    memory_mb: int = 0
    local_gb: int = 0
    vcpus_used: int = 0
    memory_mb_used: int = 0
    local_gb_used: int = 0
    free_ram_mb: int = 0
    free_disk_gb: int = 0
    disk_available_least: int | None = None
    current_workload: int = 0
    running_vms: int = 0
    hypervisor_type: str = ""
    hypervisor_version: int = 0
    cpu_info: str = ""
    supported_instances: tuple[tuple[str, str, str], ...] = ()
    host_ip: str | None = None
    metrics: tuple[dict[str, Any], ...] = ()
    stats: dict[str, str] = {}
    numa_topology: NUMATopology | None = None
    pci_device_pools: tuple[PciDevicePool, ...] = ()
    pci_devices: tuple[PciDevice, ...] = ()
    cpu_allocation_ratio: float = 4.0
    ram_allocation_ratio: float = 1.0
    disk_allocation_ratio: float = 1.0
    writer_epoch: int = 0
    write_number: int = 0
    acknowledged: int = 0
    bridges: dict[str, str] = {}


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

    resource_class: str
    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int
    step_size: int = 1
    allocation_ratio: float = 1.0
    keeps_ratio: bool = False
    children: tuple[tuple[str, int], ...] = ()

    @property
    def capacity(self) -> int:
        return int(min((self.total - self.reserved) * self.allocation_ratio, MAX_CAPACITY))
