"""Cells, pins, pages and devices in the domain of an instance."""

from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest

from minova.errors import HypervisorError
from minova.hardware.errors import RealtimeMaskNotFoundOrInvalid
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.hosts.numa import InstanceNUMACell, InstanceNUMATopology
from minova.objects.hosts.pci import PciDevice
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.xml.guest_xml import guest_xml
from minova.virt.libvirt.xml.host_settings import HostSettings
from minova.virt.libvirt.xml.numa_xml import HostCells, pinned_threads

CELLS = HostCells(cpus={0: frozenset({0, 1, 2, 3}), 1: frozenset({4, 5, 6, 7})})
HOST = HostSettings(host="hv1", arch="x86_64", virt_type="qemu", cells=CELLS, pinned=frozenset(range(8)))
PINNED = InstanceNUMATopology(
    cells=(
        InstanceNUMACell(
            id=1,
            pcpuset=frozenset({0, 1}),
            memory=512,
            pagesize=2048,
            cpu_policy="dedicated",
            cpu_pinning=((0, 4), (1, 6)),
        ),
        InstanceNUMACell(
            id=0,
            pcpuset=frozenset({2, 3}),
            memory=512,
            pagesize=2048,
            cpu_policy="dedicated",
            cpu_pinning=((2, 1), (3, 2)),
        ),
    )
)
SHARED = InstanceNUMATopology(
    cells=(
        InstanceNUMACell(id=0, cpuset=frozenset({0, 1}), memory=256),
        InstanceNUMACell(id=1, cpuset=frozenset({2, 3}), memory=768),
    )
)


def domain_of(
    numa: InstanceNUMATopology | None, specs: dict[str, str] | None = None, settings: HostSettings = HOST, **more: Any
) -> ET.Element:
    flavor = Flavor(flavorid="1", name="m", vcpus=4, memory_mb=1024, root_gb=1, extra_specs=specs or {})
    instance = Instance(
        uuid="0b8a5c5e-58a3-4a52-9e56-3a9a4f0f2f11", display_name="web", flavor=flavor, numa_topology=numa, **more
    )
    return ET.fromstring(guest_xml(instance, settings, node="n", attempt=1, disks=(), console_log=None))


def pins(domain: ET.Element) -> dict[str, str]:
    return {pin.attrib["vcpu"]: pin.attrib["cpuset"] for pin in domain.findall("cputune/vcpupin")}


def emulator(domain: ET.Element) -> str:
    emulatorpin = domain.find("cputune/emulatorpin")
    assert emulatorpin is not None
    return emulatorpin.attrib["cpuset"]


def test_pinned_cpus_stand_each_on_its_own_host_cpu() -> None:
    domain = domain_of(PINNED)
    assert pins(domain) == {"0": "4", "1": "6", "2": "1", "3": "2"}
    assert emulator(domain) == "1-2,4,6"
    vcpu = domain.find("vcpu")
    assert vcpu is not None
    assert "cpuset" not in vcpu.attrib


def test_memory_is_taken_from_the_cells_that_were_claimed() -> None:
    domain = domain_of(PINNED)
    memory = domain.find("numatune/memory")
    assert memory is not None
    assert (memory.get("mode"), memory.get("nodeset")) == ("strict", "0-1")
    assert [(n.get("cellid"), n.get("nodeset")) for n in domain.findall("numatune/memnode")] == [("0", "1"), ("1", "0")]


def test_the_guest_sees_its_own_cells() -> None:
    cells = domain_of(SHARED).findall("cpu/numa/cell")
    assert [(c.get("id"), c.get("cpus"), c.get("memory"), c.get("unit")) for c in cells] == [
        ("0", "0-1", str(256 * 1024), "KiB"),
        ("1", "2-3", str(768 * 1024), "KiB"),
    ]


def test_shared_cpus_run_on_the_shared_cpus_of_their_cell() -> None:
    domain = domain_of(SHARED)
    assert pins(domain) == {"0": "0-3", "1": "0-3", "2": "4-7", "3": "4-7"}
    assert emulator(domain) == "0-7"


def test_pages_that_are_not_the_smallest_are_asked_for_cell_by_cell() -> None:
    (page,) = domain_of(PINNED).findall("memoryBacking/hugepages/page")
    assert (page.get("size"), page.get("unit"), page.get("nodeset")) == ("2048", "KiB", "0-1")
    small = msgspec.structs.replace(
        PINNED, cells=tuple(msgspec.structs.replace(cell, pagesize=4) for cell in PINNED.cells)
    )
    assert domain_of(small).find("memoryBacking") is None


@pytest.mark.parametrize(
    ("policy", "reserved", "shared", "expected"),
    [
        (None, None, None, "1-2,4,6"),
        ("isolate", frozenset({7}), None, "7"),
        ("share", None, frozenset({0, 5}), "0,5"),
        ("share", None, None, "1-2,4,6"),
    ],
)
def test_where_emulator_threads_run(policy: str | None, reserved: Any, shared: Any, expected: str) -> None:
    cells = (msgspec.structs.replace(PINNED.cells[0], cpuset_reserved=reserved), PINNED.cells[1])
    guest = InstanceNUMATopology(cells=cells, emulator_threads_policy=policy)
    settings = msgspec.structs.replace(HOST, cells=msgspec.structs.replace(CELLS, shared=shared))
    assert emulator(domain_of(guest, settings=settings)) == expected


def test_realtime_cpus_are_scheduled_so_and_memory_is_locked() -> None:
    specs = {"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0", "hw:cpu_policy": "dedicated"}
    domain = domain_of(PINNED, specs)
    sched = domain.find("cputune/vcpusched")
    assert sched is not None
    assert (sched.get("vcpus"), sched.get("scheduler")) == ("1-3", "fifo")
    assert domain.find("memoryBacking/locked") is not None


@pytest.mark.parametrize(
    ("specs", "properties", "locked"),
    [
        ({}, {}, False),
        ({"hw:locked_memory": "true"}, {}, True),
        ({"hw:locked_memory": "false"}, {}, False),
        ({}, {"hw_locked_memory": "yes"}, True),
    ],
)
def test_memory_is_locked_where_flavor_or_image_ask_for_it(
    specs: dict[str, str], properties: dict[str, str], locked: bool
) -> None:
    domain = domain_of(PINNED, specs, image=Image(id="i", properties=properties))
    assert (domain.find("memoryBacking/locked") is not None) is locked
    assert domain.find("memoryBacking/nosharepages") is None


def test_emulator_threads_do_not_run_beside_a_realtime_cpu() -> None:
    specs = {"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0", "hw:cpu_policy": "dedicated"}
    assert emulator(domain_of(PINNED, specs)) == "4"


def test_a_realtime_guest_that_shares_its_emulator_threads_needs_a_host_with_shared_cpus() -> None:
    specs = {"hw:cpu_realtime": "yes", "hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "share"}
    guest = msgspec.structs.replace(PINNED, emulator_threads_policy="share")
    with pytest.raises(RealtimeMaskNotFoundOrInvalid, match=r"has no \[compute\] cpu_shared_set"):
        domain_of(guest, specs)
    shared = msgspec.structs.replace(CELLS, shared=frozenset({0}))
    assert emulator(domain_of(guest, specs, settings=msgspec.structs.replace(HOST, cells=shared))) == "0"


def test_a_host_without_cells_gives_the_guest_its_own_and_pins_nothing() -> None:
    domain = domain_of(SHARED, settings=msgspec.structs.replace(HOST, cells=HostCells()))
    assert domain.find("cputune") is None
    assert domain.find("numatune") is None
    assert len(domain.findall("cpu/numa/cell")) == 2


def test_a_cell_that_the_host_has_no_more_is_an_error() -> None:
    gone = HostCells(cpus={0: frozenset({0, 1, 2, 3})})
    with pytest.raises(HypervisorError, match="no NUMA cell 1 any more"):
        domain_of(PINNED, settings=msgspec.structs.replace(HOST, cells=gone))


def test_a_guest_without_topology_is_as_before() -> None:
    domain = domain_of(None)
    assert [domain.find(path) for path in ("cputune", "numatune", "cpu/numa", "memoryBacking")] == [None] * 4
    vcpu = domain.find("vcpu")
    assert vcpu is not None
    assert vcpu.get("cpuset") == "0-7"


def test_devices_are_handed_over() -> None:
    nic = PciDevice(address="0000:0a:02.3", vendor_id="8086", product_id="154c")
    own = PciDevice(address="0001:3b:00.0", vendor_id="10de", product_id="1eb8", tags=(("managed", "no"),))
    hostdevs = domain_of(None, pci_devices=(nic, own)).findall("devices/hostdev")
    assert [(dev.get("type"), dev.get("managed")) for dev in hostdevs] == [("pci", "yes"), ("pci", "no")]
    address = hostdevs[0].find("source/address")
    assert address is not None
    assert address.attrib == {"domain": "0x0000", "bus": "0x0a", "slot": "0x02", "function": "0x3"}


def test_cells_are_in_the_guest_on_libvirts_test_hypervisor_too() -> None:
    domain = domain_of(SHARED, settings=msgspec.structs.replace(HOST, virt_type="test"))
    assert [cell.get("cpus") for cell in domain.findall("cpu/numa/cell")] == ["0-1", "2-3"]


CORES = (frozenset({0, 4}), frozenset({1, 5}), frozenset({2, 6}), frozenset({3, 7}))


def pinned(*host_cpus: int, first: int = 0) -> InstanceNUMACell:
    pins = tuple((first + number, cpu) for number, cpu in enumerate(host_cpus))
    return InstanceNUMACell(id=0, pcpuset=frozenset(cpu for cpu, _ in pins), memory=64, cpu_pinning=pins)


@pytest.mark.parametrize(
    ("cells", "threads"),
    [
        ((pinned(0, 4, 1, 5),), 2),
        ((pinned(0, 4), pinned(1, 5, first=2)), 2),
        ((pinned(0, 1, 2, 3),), 1),
        ((pinned(0, 4, 1),), 1),
        # Pairs of the guest must be pairs of the host.
        ((pinned(0, 1, 5, 4),), 1),
        ((pinned(0, 9, 8),), 1),
        # Nothing is pinned yet, or only some.
        ((InstanceNUMACell(id=0, pcpuset=frozenset({0, 1}), memory=64),), 0),
        ((msgspec.structs.replace(pinned(0, 4), cpuset=frozenset({2})),), 0),
    ],
)
def test_threads_that_a_pinned_guest_sees(cells: tuple[InstanceNUMACell, ...], threads: int) -> None:
    assert pinned_threads(InstanceNUMATopology(cells=cells), HostCells(cores=CORES)) == threads


def test_a_guest_without_cells_sees_its_sockets() -> None:
    assert pinned_threads(None, HostCells(cores=CORES)) == 0
