"""Hosts and tables from a few words."""

from typing import Any

from minova.objects.flavor import Flavor
from minova.objects.image import Image
from minova.objects.request_spec import RequestSpec
from minova.scheduler.host_record import AggregateFacts, HostRecord, ImageSupport, RoomFacts, ServiceFacts
from minova.scheduler.host_table import HostTable

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


def room(capacity: int, used: int = 0, **more: int) -> RoomFacts:
    return RoomFacts(capacity=capacity, used=used, max_unit=more.pop("max_unit", capacity), **more)


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
        "rooms",
        {
            "VCPU": room(values["vcpus"] * 4, values["vcpus_used"]),
            "MEMORY_MB": room(values["memory_mb"], values["memory_mb_used"]),
            "DISK_GB": room(values["local_gb"], values["local_gb_used"]),
        },
    )
    return HostRecord(**values)


def table_of(*records: HostRecord, silent: dict[int, float] | None = None) -> HostTable:
    table = HostTable()
    table.apply({one.id: one for one in records})
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
