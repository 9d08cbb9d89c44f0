"""What is known of one host: the values that make a row of the HostTable. Memory in MB, disk in GB."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from minova.contracts.wire_bounds import MAX_FLOAT
from minova.objects.hosts.bounds import MAX_COUNT
from minova.objects.hosts.numa import NUMATopology
from minova.objects.hosts.pci import Pairs, PciDevicePool

# The only cell, as long as cells have no databases of their own.
CELL_UUID = "00000000-0000-4000-8000-0000000000c1"


# Metrics with values from 0 to 1.
SHARES = ("cpu.percent", "cpu.user.percent", "cpu.kernel.percent", "cpu.idle.percent", "cpu.iowait.percent")

# Fields that are columns of a HostTable.
WHOLE_COLUMNS = (
    "memory_mb",
    "memory_mb_used",
    "vcpus",
    "vcpus_used",
    "local_gb",
    "local_gb_used",
    "free_disk_mb",
    "num_instances",
    "num_io_ops",
    "failed_builds",
    "hypervisor_version",
)
FLOAT_COLUMNS = ("ram_allocation_ratio", "cpu_allocation_ratio", "disk_allocation_ratio")
# Fields with few distinct values on many hosts: stored as a column of indices into a list of values.
CLASS_COLUMNS = (
    "service",
    "aggregates",
    "image_support",
    "capabilities",
    "metrics",
    "cell_uuid",
    "host_ip",
    "traits",
    "provider_aggregates",
    "numa_topology",
    "pci_pools",
    "instance_images",
)


class AggregateFacts(msgspec.Struct, frozen=True):
    """An aggregate as filters see it. `metadata`: sorted pairs, so that equal aggregates compare equal."""

    id: int
    name: str
    metadata: Pairs = ()
    uuid: str = ""

    def values(self, key: str) -> set[str]:
        """Returns the metadata value, split at commas as Nova does; empty if there is none."""
        return {part.strip() for name, value in self.metadata if name == key for part in value.split(",")}


class ServiceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the host's compute service. Its id is stored separately, so that services in the same state are
    equal.

    `silent_since`: its last heartbeat (epoch seconds) if it counts as silent; 0: it never sent one.
    `refused_report`: why what the host reports of itself is not used.
    """

    disabled: bool = False
    disabled_reason: str | None = None
    forced_down: bool = False
    down_reason: str | None = None
    silent_since: float | None = None
    refused_report: str | None = None


class ImageSupport(msgspec.Struct, frozen=True, kw_only=True):
    """`supported_instances` are (architecture, hypervisor type, vm mode)."""

    hypervisor_type: str = ""
    hypervisor_version: int = 0
    supported_instances: tuple[tuple[str, str, str], ...] = ()


class HypervisorCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What the hypervisor can do. `cpu_info` is JSON text, as the compute sends it."""

    hypervisor_type: str = ""
    hypervisor_version: int = 0
    supported_instances: tuple[tuple[str, str, str], ...] = ()
    cpu_info: str = ""


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement of a host's monitor. `timestamp` and `value` are text, as received; shares are from 0 to 1."""

    name: str
    value: Annotated[float, Meta(ge=-MAX_FLOAT, le=MAX_FLOAT)] | None = None
    timestamp: str | None = None
    source: str | None = None

    @property
    def whole(self) -> int:
        """Returns the value as Nova's scheduler uses it: a whole number, with shares of CPU time in percent."""
        return int((self.value or 0) * (100 if self.name in SHARES else 1))


class InventoryFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One inventory.

    `pending`: the part of `used` that the node does not report yet, because it has not processed the claims.
    `allocation_ratio`: None: that of the node's row.
    """

    capacity: int
    used: int
    reserved: int = 0
    pending: int = 0
    min_unit: int = 1
    max_unit: int
    step_size: int = 1
    allocation_ratio: float | None = None


def merge_inventories(first: InventoryFacts, other: InventoryFacts) -> InventoryFacts:
    """Merges two inventories of a class below one node. An instance takes all of a class from a single provider, so an
    instance gets at most what the freer of the two has.
    """
    inventories = (first, other)
    return msgspec.structs.replace(
        first,
        capacity=sum(inventory.capacity for inventory in inventories),
        # Usage beyond the capacity of one inventory takes nothing from the other.
        used=sum(min(inventory.used, inventory.capacity) for inventory in inventories),
        reserved=sum(inventory.reserved for inventory in inventories),
        pending=sum(inventory.pending for inventory in inventories),
        max_unit=max(min(inventory.max_unit, inventory.capacity - inventory.used) for inventory in inventories),
    )


class HostRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One compute node with its service, inventories, aggregates and instances, as last read.

    `instance_images`: the image properties of each instance that has any.
    `provider_aggregates`: uuids, without those of `aggregates`, which count as well.

    Equal values should be one object: there are many hosts.
    """

    id: int
    uuid: str
    generation: int
    host: str
    node: str
    service_id: int
    service: ServiceFacts
    memory_mb: int
    memory_mb_used: int
    vcpus: int
    vcpus_used: int
    local_gb: int
    local_gb_used: int
    free_disk_mb: int
    num_instances: int = 0
    num_io_ops: int = 0
    failed_builds: int = 0
    ram_allocation_ratio: float = 1.0
    cpu_allocation_ratio: float = 4.0
    disk_allocation_ratio: float = 1.0
    host_ip: str | None = None
    image_support: ImageSupport = ImageSupport()
    aggregates: tuple[AggregateFacts, ...] = ()
    cpu_info: str = ""
    instances: tuple[str, ...] = ()
    instance_images: tuple[Pairs, ...] = ()
    metrics: tuple[Metric, ...] = ()
    numa_topology: NUMATopology | None = None
    pci_pools: tuple[PciDevicePool, ...] = ()
    cell_uuid: str = CELL_UUID
    traits: frozenset[str] = frozenset()
    provider_aggregates: frozenset[str] = frozenset()
    stats: dict[str, Any] = {}
    inventories: dict[str, InventoryFacts] = {}

    @property
    def hypervisor_type(self) -> str:
        return self.image_support.hypervisor_type

    @property
    def hypervisor_version(self) -> int:
        return self.image_support.hypervisor_version

    @property
    def supported_instances(self) -> tuple[tuple[str, str, str], ...]:
        return self.image_support.supported_instances

    @property
    def capabilities(self) -> HypervisorCapabilities:
        support = self.image_support
        return HypervisorCapabilities(
            hypervisor_type=support.hypervisor_type,
            hypervisor_version=support.hypervisor_version,
            supported_instances=support.supported_instances,
            cpu_info=self.cpu_info,
        )


def effective_used(reported: int, inventory: InventoryFacts | None) -> int:
    """Returns the larger of the node's reported usage, with the claims that the node has not processed yet, and the
    allocations on it.

    Each includes what the other lacks: the node's report its orphaned domains, the inventory the newest claims.
    """
    if inventory is None:
        return reported
    return max(reported + inventory.pending, inventory.used + inventory.reserved)


def free_disk_mb(free_disk_gb: int, disk_available_least: int | None, unreported_gb: int) -> int:
    """Returns the lower of the accounted free disk and what thin disks may still take, minus what is claimed but not
    reported.
    """
    least = free_disk_gb if disk_available_least is None else min(free_disk_gb, disk_available_least)
    return (least - unreported_gb) * 1024


def cpu_inventory(inventories: Mapping[str, InventoryFacts]) -> InventoryFacts | None:
    """Returns shared and dedicated CPUs together, as a node counts them."""
    present = [inventories[name] for name in ("VCPU", "PCPU") if name in inventories]
    if len(present) < 2:
        return present[0] if present else None
    return msgspec.structs.replace(
        present[0],
        used=sum(inventory.used for inventory in present),
        reserved=sum(inventory.reserved for inventory in present),
        pending=sum(inventory.pending for inventory in present),
    )


def ratio_of(inventory: InventoryFacts | None, reported: float) -> float:
    """Returns the ratio of the inventory, by which claims count. The node's row has it from the next audit on."""
    return reported if inventory is None or inventory.allocation_ratio is None else inventory.allocation_ratio


def host_record(
    node: Mapping[str, Any], inventories: dict[str, InventoryFacts], pending: int, **facts: Any
) -> HostRecord:
    """Builds the record from a `compute_nodes` row (by column name) and what else was read of the host.

    `pending`: the number of its instances whose claims the node has not processed yet.

    Raises ValueError if a counter of the stats is not a number.
    """
    local_gb_used = effective_used(node["local_gb_used"], inventories.get("DISK_GB"))
    unreported = local_gb_used - node["local_gb_used"]
    stats = facts["stats"]
    return HostRecord(
        id=node["id"],
        uuid=node["uuid"],
        generation=node["generation"],
        host=node["host"],
        node=node["hypervisor_hostname"],
        memory_mb=node["memory_mb"],
        memory_mb_used=effective_used(node["memory_mb_used"], inventories.get("MEMORY_MB")),
        vcpus=node["vcpus"],
        vcpus_used=effective_used(node["vcpus_used"], cpu_inventory(inventories)),
        local_gb=node["local_gb"],
        local_gb_used=local_gb_used,
        free_disk_mb=free_disk_mb(node["free_disk_gb"], node["disk_available_least"], unreported),
        num_instances=len(facts["instances"]),
        num_io_ops=counted(stats, "io_workload") + pending,
        failed_builds=counted(stats, "failed_builds"),
        ram_allocation_ratio=ratio_of(inventories.get("MEMORY_MB"), node["ram_allocation_ratio"]),
        cpu_allocation_ratio=ratio_of(inventories.get("VCPU"), node["cpu_allocation_ratio"]),
        disk_allocation_ratio=ratio_of(inventories.get("DISK_GB"), node["disk_allocation_ratio"]),
        host_ip=node["host_ip"],
        inventories=inventories,
        **facts,
    )


def counted(stats: Mapping[str, Any], name: str) -> int:
    """Returns a counter of the stats, 0 if it is missing. Raises ValueError if it is not a number, or none that fits."""
    try:
        number = int(stats.get(name) or 0)
    except (TypeError, ValueError) as error:
        raise ValueError(f"stats: {name} is {stats[name]!r}, which is no number") from error
    if abs(number) > MAX_COUNT:
        raise ValueError(f"stats: {name} is too large")
    return number
