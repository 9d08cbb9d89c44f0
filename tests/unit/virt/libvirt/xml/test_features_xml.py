"""CPU, features, clock, and devices that flavor and image choose, as Nova's libvirt driver writes them."""

from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest

from minova.errors import HardwareNotOffered
from minova.objects.catalogue.flavor import Flavor
from minova.objects.network.vif import Vif
from minova.virt.libvirt.xml.system_xml import chosen_of, has_variables
from tests.unit.virt.libvirt.xml.test_guest_xml import FLAVOR, MACHINES, QEMU, attribute, xml_of

KVM = msgspec.structs.replace(QEMU, virt_type="kvm")
SCREEN = msgspec.structs.replace(QEMU, vnc_listen="127.0.0.1")
VIFS = (Vif(port_id="p1", mac_address="fa:16:3e:00:00:01", network_id="n1"),)


def flavor(**specs: str) -> Flavor:
    return msgspec.structs.replace(FLAVOR, vcpus=4, extra_specs={f"hw:{key}": value for key, value in specs.items()})


def tags(domain: ET.Element, path: str) -> list[str]:
    element = domain.find(path)
    return [] if element is None else [child.tag for child in element]


def timers(domain: ET.Element) -> dict[str | None, dict[str, str]]:
    return {
        timer.get("name"): {k: v for k, v in timer.attrib.items() if k != "name"}
        for timer in domain.findall("clock/timer")
    }


def test_timers_of_a_guest_on_x86() -> None:
    assert timers(xml_of()) == {
        "pit": {"tickpolicy": "delay"},
        "rtc": {"tickpolicy": "catchup"},
        "hpet": {"present": "no"},
    }
    assert timers(xml_of(properties={"hw_time_hpet": "yes"}))["hpet"] == {"present": "yes"}
    settings = msgspec.structs.replace(QEMU, arch="aarch64")
    assert timers(xml_of(settings)) == {}


def test_windows_gets_what_hyper_v_gives_it() -> None:
    windows = xml_of(KVM, {"os_type": "windows"})
    assert attribute(windows, "clock", "offset") == "localtime"
    assert timers(windows)["hypervclock"] == {"present": "yes"}
    assert set(tags(windows, "features/hyperv")) == {
        *("relaxed", "vapic", "spinlocks", "vpindex", "runtime", "synic", "reset", "frequencies", "tlbflush", "ipi")
    }
    assert attribute(windows, "features/hyperv/spinlocks", "retries") == "8191"
    # QEMU without KVM has only these.
    emulated = xml_of(QEMU, {"os_type": "windows"})
    assert tags(emulated, "features/hyperv") == ["relaxed", "vapic", "spinlocks"]
    linux = xml_of(KVM, {"os_type": "linux"})
    assert (attribute(linux, "clock", "offset"), linux.find("features/hyperv")) == ("utc", None)


def test_a_hidden_hypervisor() -> None:
    domain = xml_of(KVM, {"os_type": "windows", "img_hide_hypervisor_id": "true"})
    assert attribute(domain, "features/kvm/hidden", "state") == "on"
    assert len(attribute(domain, "features/hyperv/vendor_id", "value") or "") == 12
    assert xml_of(KVM).find("features/kvm") is None
    assert attribute(xml_of(flavor=flavor(hide_hypervisor_id="1")), "features/kvm/hidden", "state") == "on"


@pytest.mark.parametrize(("value", "state"), [("true", "on"), ("false", "off"), (None, None)])
def test_the_performance_monitor(value: str | None, state: str | None) -> None:
    domain = xml_of(flavor=flavor(**({} if value is None else {"pmu": value})))
    assert attribute(domain, "features/pmu", "state") == state


def test_a_dump_can_find_the_kernel_of_a_guest() -> None:
    assert xml_of().find("features/vmcoreinfo") is not None


def test_the_topology_of_cpus() -> None:
    domain = xml_of(flavor=flavor(cpu_max_sockets="2"))
    assert domain.findall("cpu/topology")[0].attrib == {"sockets": "2", "cores": "2", "threads": "1"}


def test_bug_an_impossible_topology_of_an_accepted_server_keeps_a_socket_for_each_cpu() -> None:
    specs = dict.fromkeys(("cpu_max_sockets", "cpu_max_cores", "cpu_max_threads"), "1")
    domain = xml_of(flavor=flavor(**specs))
    assert domain.findall("cpu/topology")[0].attrib == {"sockets": "4", "cores": "1", "threads": "1"}


def test_the_width_of_addresses() -> None:
    domain = xml_of(flavor=flavor(maxphysaddr_mode="emulate", maxphysaddr_bits="42"))
    assert domain.findall("cpu/maxphysaddr")[0].attrib == {"mode": "emulate", "bits": "42"}
    domain = xml_of(flavor=flavor(maxphysaddr_mode="passthrough"))
    assert domain.findall("cpu/maxphysaddr")[0].attrib == {"mode": "passthrough"}


def test_flags_of_the_cpu() -> None:
    domain = xml_of(msgspec.structs.replace(QEMU, cpu_flags=("pcid", "+aes", "-mtrr")))
    features = [(each.get("policy"), each.get("name")) for each in domain.findall("cpu/feature")]
    assert features == [("require", "pcid"), ("require", "aes"), ("disable", "mtrr")]


@pytest.mark.parametrize(
    ("required", "model"),
    [
        ({}, "Westmere"),
        ({"trait:HW_CPU_X86_AESNI": "required"}, "Westmere"),
        ({"trait:HW_CPU_X86_AVX": "required"}, "Haswell"),
        ({"trait:HW_CPU_X86_AVX512F": "required"}, "Westmere"),
        ({"trait:HW_CPU_X86_AVX": "forbidden"}, "Westmere"),
    ],
)
def test_of_several_models_the_first_with_the_required_features(required: dict[str, str], model: str) -> None:
    features = {"Westmere": frozenset({"aesni"}), "Haswell": frozenset({"aesni", "avx", "avx2"})}
    settings = msgspec.structs.replace(
        QEMU, cpu_mode="custom", cpu_models=("Westmere", "Haswell"), cpu_model_features=features
    )
    domain = xml_of(settings, flavor=msgspec.structs.replace(FLAVOR, extra_specs=required))
    assert domain.findtext("cpu/model") == model


@pytest.mark.parametrize(
    ("settings", "properties", "specs", "inputs"),
    [
        (QEMU, {}, {}, []),
        (SCREEN, {}, {}, [("tablet", "usb")]),
        (SCREEN, {}, {"usb_model": "none"}, []),
        (msgspec.structs.replace(SCREEN, pointer_model="ps2mouse"), {}, {}, []),
        (
            msgspec.structs.replace(SCREEN, pointer_model="ps2mouse"),
            {"hw_pointer_model": "usbtablet"},
            {},
            [("tablet", "usb")],
        ),
        (SCREEN, {"hw_input_bus": "virtio"}, {}, [("tablet", "virtio"), ("keyboard", "virtio")]),
        (msgspec.structs.replace(SCREEN, arch="aarch64"), {}, {}, [("tablet", "usb"), ("keyboard", "usb")]),
    ],
)
def test_pointer_and_keyboard(
    settings: Any, properties: dict[str, str], specs: dict[str, str], inputs: list[tuple[str, str]]
) -> None:
    domain = xml_of(settings, properties, flavor=flavor(**specs))
    assert [(each.get("type"), each.get("bus")) for each in domain.findall("devices/input")] == inputs


def test_more_serial_ports() -> None:
    domain = xml_of(flavor=flavor(serial_port_count="3"))
    ports = domain.findall("devices/serial")
    assert [attribute(port, "target", "port") for port in ports] == ["0", "1", "2"]
    # A guest cannot fill its host's disk by those.
    assert [port.find("log") is not None for port in ports] == [True, False, False]


def test_usb_controller_and_sound() -> None:
    domain = xml_of(flavor=flavor(usb_model="qemu-xhci", sound_model="ich9"))
    assert attribute(domain, "devices/controller[@type='usb']", "model") == "qemu-xhci"
    assert attribute(domain, "devices/sound", "model") == "ich9"


@pytest.mark.parametrize(
    ("settings", "model", "made", "driver"),
    [
        (KVM, "intel", "intel", {"intremap": "on", "caching_mode": "on", "eim": "on", "iotlb": "on"}),
        (QEMU, "intel", "intel", {"intremap": "on", "caching_mode": "on", "iotlb": "on"}),
        (QEMU, "virtio", "virtio", None),
        (QEMU, "auto", "virtio", None),
    ],
)
def test_an_iommu_on_the_machine_that_has_one(
    settings: Any, model: str, made: str, driver: dict[str, str] | None
) -> None:
    domain = xml_of(settings, flavor=flavor(viommu_model=model))
    assert attribute(domain, "os/type", "machine") == "q35"
    assert attribute(domain, "devices/iommu", "model") == made
    iommu_driver = domain.find("devices/iommu/driver")
    assert (None if iommu_driver is None else iommu_driver.attrib) == driver
    assert (domain.find("features/ioapic") is not None) == (made == "intel")


def test_queues_of_interfaces() -> None:
    settings = msgspec.structs.replace(KVM, rx_queue_size=512, tx_queue_size=1024)
    driver = xml_of(settings, flavor=flavor(virtio_packed_ring="true"), network_info=VIFS).find(
        "devices/interface/driver"
    )
    assert driver is not None
    assert driver.attrib == {"name": "vhost", "rx_queue_size": "512", "tx_queue_size": "1024", "packed": "on"}
    assert xml_of(settings, {"hw_vif_model": "e1000"}, network_info=VIFS).find("devices/interface/driver") is None


def test_how_disks_are_read_and_written() -> None:
    settings = msgspec.structs.replace(QEMU, native_io=True, discard="unmap")
    driver = xml_of(settings).findall("devices/disk/driver")[0]
    assert (driver.get("io"), driver.get("discard")) == ("native", "unmap")
    # libvirt permits native I/O only without the host's cache.
    cached = xml_of(msgspec.structs.replace(settings, disk_cache="writeback")).findall("devices/disk/driver")[0]
    assert cached.get("io") is None
    assert xml_of().findall("devices/disk/driver")[0].keys() == ["name", "type", "cache"]


@pytest.mark.parametrize(("number", "shown"), [(None, True), ("", False), ("4711", True)])
def test_the_serial_number(number: str | None, shown: bool) -> None:
    domain = xml_of(msgspec.structs.replace(QEMU, serial_number=number))
    entries = {entry.get("name"): entry.text for entry in domain.findall("sysinfo/system/entry")}
    assert ("serial" in entries) == shown
    assert entries.get("serial") == (number or (entries["uuid"] if shown else None))


def test_a_machine_without_iommu_keeps_its_type() -> None:
    settings = msgspec.structs.replace(QEMU, machine_types={"x86_64": "pc"}, machines=MACHINES)
    assert attribute(xml_of(settings), "os/type", "machine") == "pc"


def test_firmware_without_variables() -> None:
    settings = msgspec.structs.replace(QEMU, uefi=True, stateless_loader="/ovmf.fd")
    properties = {"hw_firmware_type": "uefi", "hw_firmware_stateless": "true"}
    domain = xml_of(settings, properties)
    loader = domain.find("os/loader")
    assert loader is not None
    assert (loader.text, loader.attrib) == ("/ovmf.fd", {"type": "pflash", "readonly": "yes", "stateless": "yes"})
    text = ET.tostring(domain, encoding="unicode")
    assert not has_variables(text)
    chosen = chosen_of(text.replace('<type arch="x86_64">', '<type arch="x86_64" machine="pc">'))
    assert chosen is not None
    assert chosen.uefi
    with pytest.raises(HardwareNotOffered, match="hw_firmware_stateless"):
        xml_of(msgspec.structs.replace(settings, stateless_loader=None), properties)
