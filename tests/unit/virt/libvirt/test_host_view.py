"""What a compute makes of machines of very different shape, and of the options that say what of them guests may have."""

import json
from pathlib import Path
from typing import Any

import pytest

from minova import conf as configuration
from minova.errors import HypervisorError, InvalidConfiguration
from minova.hardware import cpu_spec
from minova.virt.libvirt.host_view import HostFacts, HostReader, host_used_mb, read_meminfo, xen_used_mb
from tests.fakes.libvirt_host import CannedHost

MACHINES = Path(__file__).with_name("machines")
SIZES: dict[str, dict[str, Any]] = {
    "desktop": {"cpus": 4, "memory_mb": 16384, "expands": ("sse2", "avx2")},
    "two-sockets": {"cpus": 16, "memory_mb": 131072, "expands": ("sse2", "avx2", "avx512f")},
    "four-cells": {"cpus": 32, "memory_mb": 131072},
    "eight-sockets": {"cpus": 16, "memory_mb": 1048576},
    "arm64": {"cpus": 8, "memory_mb": 65536, "expands": None},
    "xen": {"cpus": 4, "memory_mb": 8192, "kind": "Xen"},
    "memory-cell": {"cpus": 4, "memory_mb": 196608},
}
NIC = '{"vendor_id": "8086", "product_id": "154c", "physical_network": "net1"}'
CARD = '{"address": "0000:3b:00.0"}'
QAT = '{"vendor_id": "8086", "product_id": "37c8"}'


def host(machine: str) -> CannedHost:
    return CannedHost(MACHINES / f"{machine}.xml", **SIZES[machine])


def reader(**options: Any) -> HostReader:
    conf = configuration.load([], "test", files=[])
    for name, value in options.items():
        group, _, option = name.rpartition("__")
        conf.set_override(option, value, group=group or None)
    return HostReader(conf)


def read(machine: str, **options: Any) -> HostFacts:
    host_reader = reader(**options)
    connection = host(machine)
    host_reader.check(connection)
    return host_reader.read(connection, ())


def cells(facts: HostFacts) -> list[str]:
    """Each cell as `id: shared CPUs | pinned CPUs | MB | cores | {KiB of a page: how many} | socket`."""
    return [
        f"{cell.id}: {cpu_spec.write(cell.cpuset)} | {cpu_spec.write(cell.pcpuset)} | {cell.memory} | "
        f"{' '.join(','.join(map(str, sorted(core))) for core in cell.siblings)} | "
        f"{ {pages.size_kb: pages.total - pages.reserved for pages in cell.mempages} } | {cell.socket}"
        for cell in (facts.numa_topology.cells if facts.numa_topology else ())
    ]


CELLS = {
    "desktop": ["0: 0-3 | 0-3 | 16384 | 0 1 2 3 | {4: 4194304, 2048: 0} | 0"],
    "two-sockets": [
        "0: 0-3,8-11 | 0-3,8-11 | 65536 | 0,8 1,9 2,10 3,11 | {4: 8388608, 2048: 8192, 1048576: 16} | 0",
        "1: 4-7,12-15 | 4-7,12-15 | 65536 | 4,12 5,13 6,14 7,15 | {4: 8388608, 2048: 8192, 1048576: 16} | 1",
    ],
    "four-cells": [
        f"{n}: {4 * n}-{4 * n + 3},{4 * n + 16}-{4 * n + 19} | {4 * n}-{4 * n + 3},{4 * n + 16}-{4 * n + 19} | 32768 | "
        f"{' '.join(f'{4 * n + k},{4 * n + k + 16}' for k in range(4))} | "
        f"{ {4: 4194304, 2048: 4096, 1048576: 8 if n == 0 else 0} } | 0"
        for n in range(4)
    ],
    "eight-sockets": [
        f"{n}: {2 * n}-{2 * n + 1} | {2 * n}-{2 * n + 1} | 131072 | {2 * n} {2 * n + 1} | "
        f"{ {4: 0, 2048: 0, 1048576: 120} } | {n}"
        for n in range(8)
    ],
    "arm64": [
        "0: 0-3 | 0-3 | 32768 | 0 1 2 3 | {64: 524288, 2048: 0, 524288: 32} | 0",
        "1: 4-7 | 4-7 | 32768 | 4 5 6 7 | {64: 524288, 2048: 0, 524288: 32} | 1",
    ],
    "xen": [],
    "memory-cell": [
        "0: 0-3 | 0-3 | 65536 | 0,2 1,3 | {4: 16777216, 2048: 0} | 0",
        "1:  |  | 131072 |  | {4: 33554432, 2048: 0} | None",
    ],
}


@pytest.mark.parametrize("machine", CELLS)
def test_cells(machine: str) -> None:
    assert cells(read(machine)) == CELLS[machine]


@pytest.mark.parametrize(
    ("machine", "options", "vcpus", "pcpus"),
    [
        ("desktop", {}, 4, 0),
        ("two-sockets", {}, 16, 0),
        ("four-cells", {}, 32, 0),
        ("eight-sockets", {}, 16, 0),
        ("arm64", {}, 8, 0),
        ("xen", {}, 4, 0),
        ("memory-cell", {}, 4, 0),
        ("xen", {"vcpu_pin_set": "1-3"}, 3, 0),
        ("two-sockets", {"vcpu_pin_set": "2-7,^4,10-15"}, 11, 0),
        ("two-sockets", {"compute__cpu_shared_set": "0-3"}, 4, 0),
        ("two-sockets", {"compute__cpu_dedicated_set": "2-15"}, 0, 14),
        ("two-sockets", {"compute__cpu_dedicated_set": "2-7,10-15", "compute__cpu_shared_set": "0-1,8-9"}, 4, 12),
        ("arm64", {"compute__cpu_dedicated_set": "4-7", "compute__cpu_shared_set": "1-3"}, 3, 4),
    ],
)
def test_cpus_for_shared_and_for_pinned_guests(machine: str, options: dict[str, str], vcpus: int, pcpus: int) -> None:
    facts = read(machine, **options)
    assert facts.sets.counted == (vcpus, pcpus)


def test_cells_have_the_cpus_of_each_set_and_the_cores_of_both() -> None:
    facts = read("two-sockets", compute__cpu_dedicated_set="4-7,12-15", compute__cpu_shared_set="2-3,10")
    assert [line.rpartition(" | {")[0] for line in cells(facts)] == [
        "0: 2-3,10 |  | 65536 | 2,10 3",
        "1:  | 4-7,12-15 | 65536 | 4,12 5,13 6,14 7,15",
    ]


def test_reserved_pages_are_not_for_guests() -> None:
    pages = [{"node": "0", "size": "2048", "count": "192"}, {"node": "1", "size": "1GB", "count": "16"}]
    assert [line.split(" | ")[4] for line in cells(read("two-sockets", reserved_huge_pages=pages))] == [
        "{4: 8388608, 2048: 8000, 1048576: 16}",
        "{4: 8388608, 2048: 8192, 1048576: 0}",
    ]


@pytest.mark.parametrize(
    ("machine", "specs", "found"),
    [
        ("two-sockets", [], []),
        ("two-sockets", [QAT], ["0000:5e:00.0 type-PCI 0"]),
        ("two-sockets", [NIC], [f"0000:3b:02.{n} type-VF 1 physical_network=net1" for n in range(4)]),
        ("two-sockets", [CARD], ["0000:3b:00.0 type-PF 1"] + [f"0000:3b:02.{n} type-VF 1" for n in range(4)]),
        ("two-sockets", ['{"devname": "ens1f0"}'], ["0000:3b:00.0 type-PF 1"]),
        ("two-sockets", ['{"address": "*:3b:02.[13]"}'], None),
        (
            "two-sockets",
            ['{"address": {"bus": "3b", "slot": "02", "function": "[13]"}}'],
            ["0000:3b:02.1 type-VF 1", "0000:3b:02.3 type-VF 1"],
        ),
        ("four-cells", ['{"vendor_id": "144D"}'], ["0000:c1:00.0 type-PCI 3", "0000:c2:00.0 type-PCI 3"]),
        ("arm64", ['{"address": "000c:*:*.*"}'], ["000c:01:00.0 type-PCI None"]),
    ],
)
def test_devices_of_device_spec(machine: str, specs: list[str], found: list[str] | None) -> None:
    if found is None:
        with pytest.raises(InvalidConfiguration, match="is neither"):
            read(machine, pci__device_spec=specs)
        return
    facts = read(machine, pci__device_spec=specs)
    assert [
        " ".join(
            [
                pci_device.address,
                pci_device.dev_type,
                str(pci_device.numa_node),
                *(f"{key}={value}" for key, value in pci_device.tags),
            ]
        )
        for pci_device in facts.pci_devices
    ] == found


@pytest.mark.parametrize(
    ("types", "vgpus"),
    [([], 0), (["nvidia-222"], 16), (["nvidia-222", "nvidia-230"], 16), (["nvidia-230", "nvidia-222"], 0)],
)
def test_vgpus_that_there_can_be_and_that_there_are(types: list[str], vgpus: int) -> None:
    expected = {"pci_0000_41_00_0": vgpus} if vgpus else {}
    assert read("four-cells", devices__enabled_mdev_types=types).gpus == expected


@pytest.mark.parametrize(
    ("machine", "has", "lacks"),
    [
        ("desktop", {"HW_CPU_X86_AMD_SVM", "HW_CPU_X86_AVX2", "HW_ARCH_X86_64"}, {"HW_CPU_HYPERTHREADING"}),
        ("two-sockets", {"HW_CPU_X86_VMX", "HW_CPU_X86_AVX512F", "HW_CPU_X86_AVX512VNNI", "HW_CPU_HYPERTHREADING"}, set()),
        ("eight-sockets", {"HW_CPU_X86_INTEL_VMX"}, {"HW_CPU_HYPERTHREADING", "HW_CPU_X86_AMD_SVM"}),
        ("arm64", {"HW_ARCH_AARCH64", "COMPUTE_NODE"}, {"HW_CPU_HYPERTHREADING", "HW_ARCH_X86_64"}),
        ("xen", {"HW_ARCH_X86_64"}, {"HW_CPU_HYPERTHREADING"}),
    ],
)  # fmt: skip
def test_traits(machine: str, has: set[str], lacks: set[str]) -> None:
    traits = set(read(machine).traits)
    assert has <= traits
    assert not lacks & traits


@pytest.mark.parametrize(
    ("machine", "info"),
    [
        ("desktop", ("x86_64", "EPYC-Rome", "AMD", (1, 1, 4, 1), ["avx2", "npt", "sse2", "svm"])),
        (
            "two-sockets",
            (
                "x86_64",
                "Cascadelake-Server",
                "Intel",
                (2, 1, 4, 2),
                ["avx2", "avx512-vnni", "avx512f", "pdpe1gb", "sse2", "vmx"],
            ),
        ),
        ("eight-sockets", ("x86_64", "Skylake-Server", "Intel", (8, 1, 2, 1), ["vmx"])),
        ("arm64", ("aarch64", "", "", (2, 1, 4, 1), [])),
        ("xen", ("x86_64", "", "", (1, 1, 2, 2), [])),
    ],
)
def test_cpu_info(machine: str, info: tuple[Any, ...]) -> None:
    cpu_info = json.loads(read(machine).capabilities.cpu_info)
    topology = tuple(cpu_info["topology"][key] for key in ("cells", "sockets", "cores", "threads"))
    assert (cpu_info["arch"], cpu_info["model"], cpu_info["vendor"], topology, cpu_info["features"]) == info


@pytest.mark.parametrize(
    ("machine", "instances"),
    [
        ("desktop", "i686 qemu hvm, i686 kvm hvm, x86_64 qemu hvm, x86_64 kvm hvm"),
        ("arm64", "armv7l qemu hvm, aarch64 qemu hvm, aarch64 kvm hvm"),
        ("xen", "x86_64 xen xen, i686 xen hvm"),
    ],
)
def test_supported_instances(machine: str, instances: str) -> None:
    assert (
        ", ".join(" ".join(supported_instance) for supported_instance in read(machine).capabilities.supported_instances)
        == instances
    )


@pytest.mark.parametrize(("machine", "used_mb"), [("desktop", 4096), ("eight-sockets", 262144), ("xen", 0)])
def test_memory(machine: str, used_mb: int) -> None:
    facts = read(machine)
    assert (facts.memory_mb, facts.memory_mb_used) == (SIZES[machine]["memory_mb"], used_mb)


@pytest.mark.parametrize(
    ("machine", "options", "words"),
    [
        ("two-sockets", {"vcpu_pin_set": "0-99"}, "[DEFAULT] vcpu_pin_set = 0-99: the host has no CPU 16-99"),
        ("desktop", {"compute__cpu_dedicated_set": "4"}, "[compute] cpu_dedicated_set = 4: the host has no CPU 4"),
        (
            "desktop",
            {"compute__cpu_dedicated_set": "1-3", "compute__cpu_shared_set": "0-1"},
            "[compute] cpu_shared_set and [compute] cpu_dedicated_set have CPUs 1 in common",
        ),
        (
            "desktop",
            {"compute__cpu_dedicated_set": "1-3", "vcpu_pin_set": "0"},
            "[DEFAULT] vcpu_pin_set and [compute] cpu_dedicated_set exclude each other",
        ),
        (
            "two-sockets",
            {"reserved_huge_pages": [{"node": "1", "size": "1048576", "count": "17"}]},
            "[DEFAULT] reserved_huge_pages: cell 1 has 16 pages of 1048576 KiB, fewer than 17",
        ),
        (
            "xen",
            {"reserved_huge_pages": [{"node": "0", "size": "2048", "count": "1"}]},
            "[DEFAULT] reserved_huge_pages: the host has no pages of 2048 KiB on cell 0",
        ),
        ("two-sockets", {"pci__device_spec": ["[nic]"]}, "[pci] device_spec: '[nic]' is no JSON"),
        (
            "desktop",
            {"pci__device_spec": [NIC]},
            f"[pci] device_spec: {NIC} matches no PCI device of this host",
        ),
        ("desktop", {"pci__alias": ['{"name": "x"']}, "[pci] alias {\"name\": \"x\": is no JSON"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told_by_its_option(machine: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        read(machine, **options)
    assert words in str(caught.value)


def test_what_other_hosts_may_have_is_only_said(caplog: pytest.LogCaptureFixture) -> None:
    nic = '{"name": "nic", "vendor_id": "8086", "product_id": "154c", "device_type": "type-VF"}'
    qat = '{"name": "qat", "vendor_id": "8086", "product_id": "37c8"}'
    read("two-sockets", pci__device_spec=[QAT], pci__alias=[nic, qat], devices__enabled_mdev_types=["nvidia-222"])
    assert caplog.messages == [
        "[pci] alias nic: this host has no such device for instances",
        "[devices] enabled_mdev_types: this host has no mediated devices of type nvidia-222",
    ]


def test_types_of_one_card_do_not_add_up(caplog: pytest.LogCaptureFixture) -> None:
    types = ["nvidia-222", "nvidia-230"]
    host_reader, connection = reader(devices__enabled_mdev_types=types), host("four-cells")
    for device in connection.devices:
        device.xml = device.xml.replace("<availableInstances>0<", "<availableInstances>8<")
    host_reader.check(connection)
    assert host_reader.read(connection, ()).gpus == {"pci_0000_41_00_0": 16}
    assert caplog.messages == ["[devices] enabled_mdev_types: only nvidia-222 is offered, nvidia-230 is not"]


def test_what_is_odd_is_told_once_and_not_in_every_audit(caplog: pytest.LogCaptureFixture) -> None:

    host_reader, connection = reader(pci__device_spec=[QAT]), host("two-sockets")
    connection.capabilities = connection.capabilities.replace('siblings="7,15"', 'siblings="7-"', 1)
    connection.devices[1].xml = "<device><name>odd</name><capability type='pci'/></device>"
    host_reader.check(connection)
    for _ in range(3):
        facts = host_reader.read(connection, ())
    assert [message.partition(": ")[2].count(";") for message in caplog.messages] == [0, 0]
    assert "siblings of cpu 7: '7-'" in caplog.messages[0]
    assert caplog.messages[1].endswith(": odd")
    assert facts.sets.counted == (16, 0)
    connection.capabilities = connection.capabilities.replace('<memory unit="KiB">67108864', "<memory>x", 1)
    host_reader.read(connection, ())
    assert "memory 'x' KiB of cell 0" in caplog.messages[2]
    assert len(caplog.messages) == 3


def test_what_is_not_of_a_host_at_all() -> None:
    connection = host("desktop")
    connection.capabilities = "<nothing/>"
    with pytest.raises(HypervisorError, match="canned:///system is not known: the capabilities have no host"):
        reader().check(connection)


GIB = 1024 * 1024
MEMINFO = """\
MemTotal:        4194304 kB
MemFree:         1048576 kB
Buffers:          262144 kB
Cached:           786432 kB
HugePages_Total:       0
VmallocChunk:
"""


def test_the_host_itself_and_what_it_can_give_up_at_once() -> None:
    stats = {"total": 16 * GIB, "free": 4 * GIB, "buffers": 1 * GIB, "cached": 3 * GIB}
    assert host_used_mb(stats) == 8 * 1024
    assert host_used_mb({"total": 16 * GIB, "free": 4 * GIB}) == 12 * 1024


@pytest.mark.parametrize(
    ("domains", "used_mb"),
    [
        ([], 0),
        ([(0, 4 * GIB)], 2 * 1024),
        ([(0, 4 * GIB), (1, 1 * GIB), (7, 2 * GIB)], 5 * 1024),
        ([(1, 1 * GIB), (7, 2 * GIB)], 3 * 1024),
    ],
)
def test_xen_is_its_domains_and_of_dom0_what_is_not_free(domains: list[tuple[int, int]], used_mb: int) -> None:
    assert xen_used_mb(domains, read_meminfo(MEMINFO)) == used_mb


SEV = """<domainCapabilities><features><sev supported='yes'><cbitpos>47</cbitpos><reducedPhysBits>1</reducedPhysBits>{}</sev></features>
</domainCapabilities>"""


class EncryptingHost(CannedHost):
    most = "<maxGuests>15</maxGuests>"

    def getDomainCapabilities(self, *arguments: Any) -> str:  # noqa: N802
        return SEV.format(self.most)


@pytest.mark.parametrize(
    ("options", "most", "contexts"),
    [
        ({"libvirt__virt_type": "kvm"}, EncryptingHost.most, 15),
        ({"libvirt__virt_type": "kvm", "libvirt__num_memory_encrypted_guests": 4}, EncryptingHost.most, 4),
        ({"libvirt__virt_type": "kvm"}, "", 2**31 - 1),
        ({"libvirt__virt_type": "qemu"}, EncryptingHost.most, 0),
    ],
)
def test_guests_that_may_have_encrypted_memory(options: dict[str, Any], most: str, contexts: int) -> None:
    connection = EncryptingHost(MACHINES / "desktop.xml", **SIZES["desktop"])
    connection.most = most
    facts = reader(**options).read(connection, ())
    assert facts.memory_encryption_contexts == contexts
    assert ("HW_CPU_X86_AMD_SEV" in facts.traits) == (contexts > 0)


def test_features_of_the_models_of_guests() -> None:
    host_reader = reader(libvirt__cpu_mode="custom", libvirt__cpu_models=["Nehalem"])
    connection = host("desktop")
    connection.models = ["Nehalem", "Haswell"]
    assert host_reader.model_features(connection, "x86_64") == {"Nehalem": frozenset({"sse2", "avx2"})}
    assert reader(libvirt__cpu_models=["Nehalem"]).model_features(connection, "x86_64") == {}
    unknown = reader(libvirt__cpu_mode="custom", libvirt__cpu_models=["Pentium9"])
    with pytest.raises(InvalidConfiguration, match=r"cpu_models = Pentium9: libvirt knows no such model for x86_64"):
        unknown.model_features(connection, "x86_64")
