"""Hosts and tables from a few words."""

from typing import Any

from hypothesis import strategies as st

from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.instance_group import POLICIES, InstanceGroup
from minova.objects.requests.request_spec import Destination, RequestSpec, Retry
from minova.scheduler.hosts.record import AggregateFacts, HostRecord, ImageSupport, InventoryFacts, Metric, ServiceFacts
from minova.scheduler.hosts.table import HostTable
from tests.unit.hardware import guests

QEMU = ImageSupport(
    hypervisor_type="QEMU", hypervisor_version=7002000, supported_instances=(("x86_64", "qemu", "hvm"),)
)


class Options:
    """Stands where the configuration does: any attribute, any depth; unset ones are None."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        return None


CONF = Options(
    scheduler=Options(default_availability_zone="nova"),
    filter_scheduler=Options(ram_weight_multiplier=1.0, cpu_weight_multiplier=1.0, disk_weight_multiplier=1.0),
)


def zone(name: str) -> AggregateFacts:
    return AggregateFacts(1, "a", (("availability_zone", name),))


def inventory(capacity: int, used: int = 0, **more: int) -> InventoryFacts:
    return InventoryFacts(capacity=capacity, used=used, max_unit=more.pop("max_unit", capacity), **more)


def record(number: int = 1, **facts: Any) -> HostRecord:
    """16 vcpus, 32768 MB, 500 GB, empty, up, with inventories to match."""
    values: dict[str, Any] = {
        "id": number,
        "uuid": f"uuid-{number}",
        "generation": 0,
        "host": f"host{number}",
        "node": f"node{number}",
        "service_id": number,
        "service": ServiceFacts(),
        "memory_mb": 32768,
        "memory_mb_used": 0,
        "vcpus": 16,
        "vcpus_used": 0,
        "local_gb": 500,
        "local_gb_used": 0,
        "image_support": QEMU,
        **facts,
    }
    values.setdefault("free_disk_mb", (values["local_gb"] - values["local_gb_used"]) * 1024)
    values.setdefault(
        "inventories",
        {
            "VCPU": inventory(values["vcpus"] * 4, values["vcpus_used"]),
            "MEMORY_MB": inventory(values["memory_mb"], values["memory_mb_used"]),
            "DISK_GB": inventory(values["local_gb"], values["local_gb_used"]),
        },
    )
    return HostRecord(**values)


def table_of(*records: HostRecord, silent: dict[int, float] | None = None, share_instances: bool = False) -> HostTable:
    table = HostTable(share_instances=share_instances)
    table.apply({record.id: record for record in records})
    table.set_silent(silent or {})
    return table


def uuids(count: int) -> tuple[str, ...]:
    """So many instances' names."""
    return tuple(f"instance-{number}" for number in range(count))


def spec_of(memory_mb: int = 2048, vcpus: int = 1, root_gb: int = 10, **more: Any) -> RequestSpec:
    sizes = {name: more.pop(name) for name in ("ephemeral_gb", "swap") if name in more}
    properties = more.pop("properties", {})
    flavor = Flavor(flavorid="f", name="f", vcpus=vcpus, memory_mb=memory_mb, root_gb=root_gb, **sizes)
    return RequestSpec(flavor=flavor, image=Image(id="i", properties=properties), **more)


# -- any hosts, any requests -------------------------------------------------------------------------------------------

UUIDS = tuple(f"{number:08d}-0000-4000-8000-000000000000" for number in range(6))
PROPERTIES: tuple[dict[str, str], ...] = (
    {},
    {"hw_architecture": "x86_64"},
    {"img_hv_type": "kvm"},
    {"os_distro": "debian", "hw_cpu_policy": "dedicated", "hw_cpu_thread_policy": "require"},
)
METADATA = (
    {"availability_zone": "z1"},
    {"availability_zone": "z1,z2", "ssd": "true"},
    {"filter_tenant_id": "p, q"},
    {"cpu_allocation_ratio": "2", "ram_weight_multiplier": "3", "max_io_ops_per_host": "1"},
    {"cpu_allocation_ratio": "many", "disk_allocation_ratio": "1.5", "instance_type": "f"},
    {"os_distro": "debian,windows", "max_instances_per_host": "2", "ram_allocation_ratio": "1.5"},
)
AGGREGATES = tuple(
    AggregateFacts(number, f"a{number}", tuple(sorted(pairs.items())), f"aggregate-{number}")
    for number, pairs in enumerate(METADATA)
)

services = st.builds(
    ServiceFacts,
    disabled=st.booleans(),
    disabled_reason=st.sampled_from([None, "why"]),
    forced_down=st.booleans(),
    down_reason=st.sampled_from([None, "gone"]),
)
supports = st.sampled_from([QEMU, ImageSupport(), ImageSupport(supported_instances=(("aarch64", "kvm", "hvm"),))])
ratios = st.sampled_from([0.5, 1.0, 1.5, 4.0])
pairs = st.sampled_from([tuple(sorted(properties.items())) for properties in PROPERTIES])
metrics = st.sampled_from([(), (Metric(name="cpu.percent", value=0.5),), (Metric(name="other", value=3),)])


@st.composite
def inventories(draw: st.DrawFn) -> dict[str, InventoryFacts]:
    return {
        name: inventory(
            draw(st.integers(0, 40)) * scale, draw(st.integers(0, 40)) * scale, min_unit=draw(st.integers(1, 2))
        )
        for name, scale in (("VCPU", 1), ("MEMORY_MB", 1024), ("DISK_GB", 1), ("VGPU", 1))
        if draw(st.booleans())
    }


@st.composite
def facts(draw: st.DrawFn) -> dict[str, Any]:
    """Something of every column."""
    instances = tuple(draw(st.lists(st.sampled_from(UUIDS), max_size=3, unique=True)))
    pools, _ = draw(guests.devices())
    return {
        "memory_mb": draw(st.integers(0, 8)) * 1024,
        "memory_mb_used": draw(st.integers(0, 9)) * 1024,
        "vcpus": draw(st.integers(0, 4)),
        "vcpus_used": draw(st.integers(0, 9)),
        "local_gb": draw(st.integers(0, 40)),
        "local_gb_used": draw(st.integers(0, 40)),
        "free_disk_mb": draw(st.integers(-10, 40)) * 1024,
        "inventories": draw(inventories()),
        "ram_allocation_ratio": draw(ratios),
        "cpu_allocation_ratio": draw(ratios),
        "disk_allocation_ratio": draw(ratios),
        "service_id": draw(st.integers(1, 3)),
        "service": draw(services),
        "aggregates": tuple(draw(st.lists(st.sampled_from(AGGREGATES), max_size=2, unique=True))),
        "image_support": draw(supports),
        "cpu_info": draw(st.sampled_from(["", '{"vendor": "Intel", "features": ["avx"]}'])),
        "num_instances": len(instances),
        "num_io_ops": draw(st.integers(0, 9)),
        "failed_builds": draw(st.integers(0, 2)),
        "instances": instances,
        "instance_images": tuple(draw(pairs) for _ in instances),
        "metrics": draw(metrics),
        "numa_topology": draw(st.none() | guests.hosts(most=2)),
        "pci_pools": pools,
        "cell_uuid": draw(st.sampled_from(["cell1", "cell2"])),
        "host_ip": draw(st.sampled_from(["10.0.0.1", "10.0.1.1"])),
        "traits": draw(st.frozensets(st.sampled_from(["HW_CPU_X86_AVX", "CUSTOM_GOLD"]))),
        "provider_aggregates": draw(st.frozensets(st.sampled_from(["aggregate-1", "other"]))),
        "stats": draw(st.sampled_from([{}, {"num_instances": "3", "io_workload": "2"}])),
    }


@st.composite
def record_lists(draw: st.DrawFn) -> list[HostRecord]:
    many = draw(st.lists(facts(), min_size=1, max_size=5))
    return [record(number, **fields) for number, fields in enumerate(many, start=1)]


@st.composite
def groups(draw: st.DrawFn) -> InstanceGroup:
    return InstanceGroup(
        uuid="g",
        policy=draw(st.sampled_from(POLICIES)),
        members=tuple(draw(st.lists(st.sampled_from(UUIDS), max_size=3, unique=True))),
        hosts=tuple(draw(st.lists(st.sampled_from(["host1", "host2"]), max_size=2, unique=True))),
        max_server_per_host=draw(st.sampled_from([None, 2])),
    )


hints: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"same_host": [UUIDS[0], UUIDS[1]]},
        {"different_host": UUIDS[0]},
        {"build_near_host_ip": "10.0.0.9", "cidr": "/24"},
        {"query": '[">=", "$free_ram_mb", 1024]'},
        {"query": '["or", ["=", "$host", "host1"], ["<", "$num_io_ops", 5]]'},
    ]
)
extra_specs: st.SearchStrategy[dict[str, str]] = st.sampled_from(
    [
        {},
        {"aggregate_instance_extra_specs:ssd": "true"},
        {"capabilities:hypervisor_type": "QEMU", "capabilities:cpu_info:vendor": "s== Intel"},
        {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"},
        {"resources:VGPU": "1"},
    ]
)


@st.composite
def specs(draw: st.DrawFn) -> RequestSpec:
    """Something of everything that a filter or weigher looks at."""
    flavor = Flavor(
        flavorid="f",
        name="f",
        memory_mb=draw(st.sampled_from([512, 1024, 3000])),
        vcpus=draw(st.integers(1, 3)),
        root_gb=draw(st.integers(0, 20)),
        swap=draw(st.sampled_from([0, 100])),
        extra_specs=draw(extra_specs),
    )
    _, requests = draw(guests.devices())
    return RequestSpec(
        flavor=flavor,
        image=Image(id="i", properties=draw(st.sampled_from(PROPERTIES))),
        project_id=draw(st.sampled_from(["p", "other"])),
        availability_zone=draw(st.sampled_from([None, "z1", "nova"])),
        scheduler_hints=draw(hints),
        instance_group=draw(st.none() | groups()),
        retry=draw(st.sampled_from([Retry(), Retry(num_attempts=1, hosts=(("host1", "node1"),))])),
        numa_topology=draw(st.none() | guests.guests(most=2)),
        pci_requests=draw(st.sampled_from([(), requests])),
        requested_destination=draw(
            st.sampled_from([None, Destination(cell="cell1", allow_cross_cell_move=True), Destination(cell="cell1")])
        ),
    )
