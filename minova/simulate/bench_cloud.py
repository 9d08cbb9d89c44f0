"""A synthetic cloud for benchmarks, with half of the hosts partly used, twenty aggregates and three zones; and the
requests to it.
"""

from collections.abc import Mapping

import msgspec

from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.instance_group import ANTI_AFFINITY, InstanceGroup
from minova.objects.hosts.numa import InstanceNUMACell, InstanceNUMATopology, NUMACell, NUMAPages, NUMATopology
from minova.objects.requests.request_spec import PlacementFilter, RequestSpec
from minova.objects.requests.resource_request import resource_alternatives
from minova.scheduler.hosts.record import AggregateFacts, HostRecord, ImageSupport, InventoryFacts, ServiceFacts

CPUS, MEMORY_MB, DISK_GB = 64, 262144, 4000
CELLS = 2
# A partly used host has at most so many sixteenths taken.
MAX_TAKEN = 12
AGGREGATES = tuple(
    AggregateFacts(
        number + 1,
        f"aggregate{number}",
        (("availability_zone", f"zone{number}"),) if number < 3 else (("ssd", "true" if number % 2 else "false"),),
        f"00000000-0000-4000-9000-{number:012d}",
    )
    for number in range(20)
)
SUPPORTS = tuple(
    ImageSupport(
        hypervisor_type="QEMU",
        hypervisor_version=7002000 + number,
        supported_instances=(("x86_64", "kvm", "hvm"), ("i686", "kvm", "hvm")),
    )
    for number in range(3)
)


def uuid_of(kind: str, number: int) -> str:
    return f"{['node', 'service', 'instance'].index(kind):08d}-0000-4000-8000-{number:012d}"


def used_sixteenths(number: int) -> int:
    """Returns how many sixteenths of a host are taken: none on every second host."""
    return number % (MAX_TAKEN + 1) if number % 2 else 0


def host_records(hosts: int, *, numa: bool = True) -> dict[int, HostRecord]:
    """Returns the records by id; ids begin at 1. `numa` False: the hosts report no cells."""
    inventories = {used: inventories_of(used) for used in range(MAX_TAKEN + 1)}
    return {number: _record(number, inventories, numa=numa) for number in range(1, hosts + 1)}


def _record(number: int, inventories: Mapping[int, dict[str, InventoryFacts]], *, numa: bool) -> HostRecord:
    used = used_sixteenths(number)
    instances = tuple(uuid_of("instance", number * 16 + index) for index in range(used // 2))
    return HostRecord(
        id=number,
        uuid=uuid_of("node", number),
        generation=1,
        host=f"host{number:06d}",
        node=f"host{number:06d}.example.org",
        service_id=number,
        service=ServiceFacts(),
        memory_mb=MEMORY_MB,
        memory_mb_used=used * MEMORY_MB // 16,
        vcpus=CPUS,
        vcpus_used=used * CPUS // 16,
        local_gb=DISK_GB,
        local_gb_used=used * DISK_GB // 16,
        free_disk_mb=(DISK_GB - used * DISK_GB // 16) * 1024,
        num_instances=len(instances),
        num_io_ops=used % 3,
        host_ip=f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
        image_support=SUPPORTS[number % 3],
        aggregates=(AGGREGATES[number % 3], AGGREGATES[number % 17 + 3]),
        instances=instances,
        numa_topology=topology(used, number) if numa else None,
        stats={"num_instances": str(len(instances)), "io_workload": str(used % 3), "failed_builds": "0"},
        inventories=inventories[used],
    )


def inventories_of(used: int) -> dict[str, InventoryFacts]:
    sizes = (("VCPU", CPUS, 4), ("MEMORY_MB", MEMORY_MB, 1), ("DISK_GB", DISK_GB, 1))
    return {
        name: InventoryFacts(capacity=total * ratio, used=used * total // 16, max_unit=total)
        for name, total, ratio in sizes
    }


def topology(used: int, number: int = 0) -> NUMATopology:
    """Returns two cells of sixteen cores with two threads each. As many sixteenths of the CPUs are pinned as are used;
    `number` varies which ones, as on real hosts.
    """
    return NUMATopology(tuple(_cell(index, used, number) for index in range(CELLS)))


def _cell(index: int, used: int, number: int) -> NUMACell:
    size, memory = CPUS // CELLS, MEMORY_MB // CELLS
    first, step = number % size, STEPS[number // size % len(STEPS)]
    pinned = (CELL_CPUS[index][(first + step * turn) % size] for turn in range(used * size // 16))
    return msgspec.structs.replace(
        EMPTY_CELLS[index],
        cpu_usage=used * size // 16,
        memory_usage=used * memory // 16,
        pinned_cpus=frozenset(pinned),
        mempages=(
            NUMAPages(size_kb=4, total=memory * 192, used=used * memory * 12),
            NUMAPages(size_kb=2048, total=memory // 8),
        ),
    )


CELL_CPUS = tuple(range(index * CPUS // CELLS, (index + 1) * CPUS // CELLS) for index in range(CELLS))
# Odd numbers: steps of each of them reach all CPUs of a cell.
STEPS = tuple(range(1, CPUS // CELLS, 2))
EMPTY_CELLS = tuple(
    NUMACell(
        id=index,
        cpuset=frozenset(cpus),
        pcpuset=frozenset(cpus),
        memory=MEMORY_MB // CELLS,
        siblings=tuple(frozenset(cpus[core * 2 : core * 2 + 2]) for core in range(len(cpus) // 2)),
        socket=index,
    )
    for index, cpus in enumerate(CELL_CPUS)
)


# -- requests ----------------------------------------------------------------------------------------------------------


def requests(hosts: int) -> dict[str, RequestSpec]:
    """Returns the requests by name. The group has up to four members, two of which are on hosts."""
    image = Image(id="image", properties={"hw_architecture": "x86_64"})
    members = tuple(uuid_of("instance", number * 16) for number in range(3, min(hosts, 40), 12))
    return {
        "plain": RequestSpec(flavor=_flavor(), image=image, project_id="project"),
        "zone-group": RequestSpec(
            flavor=_flavor({"aggregate_instance_extra_specs:ssd": "true"}),
            image=image,
            project_id="project",
            availability_zone="zone1",
            instance_group=InstanceGroup(uuid="group", policy=ANTI_AFFINITY, members=members),
        ),
        "pinned-1": _pinned(1, image),
        "pinned-2": _pinned(2, image),
    }


def _flavor(extra_specs: Mapping[str, str] | None = None) -> Flavor:
    return Flavor(flavorid="m", name="m", vcpus=4, memory_mb=8192, root_gb=20, extra_specs=dict(extra_specs or {}))


def _pinned(cells: int, image: Image) -> RequestSpec:
    flavor = _flavor({"hw:cpu_policy": "dedicated", "hw:numa_nodes": str(cells)})
    each = flavor.vcpus // cells
    guest_cells = tuple(
        InstanceNUMACell(
            id=index,
            pcpuset=frozenset(range(index * each, (index + 1) * each)),
            memory=flavor.memory_mb // cells,
            cpu_policy="dedicated",
        )
        for index in range(cells)
    )
    topology = InstanceNUMATopology(cells=guest_cells)
    # These hosts offer no PCPU, so a pinned guest uses its second alternative.
    placement = PlacementFilter(resources=resource_alternatives(flavor, topology)[-1])
    return RequestSpec(flavor=flavor, image=image, project_id="project", numa_topology=topology, placement=placement)
