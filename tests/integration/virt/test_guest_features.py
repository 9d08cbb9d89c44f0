"""What flavors and images choose of CPU, clock and devices, seen from inside of real guests."""

import os
import select
from pathlib import Path
from typing import Any

import msgspec
import pytest

from minova.errors import HardwareNotOffered, HypervisorError
from minova.objects.catalogue.flavor import Flavor
from tests.integration.virt.test_guest_hardware import Guest, guest
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(600)
FLAVOR = Flavor(
    flavorid="1",
    name="many",
    vcpus=4,
    memory_mb=160,
    root_gb=1,
    extra_specs={
        "hw:cpu_max_sockets": "1",
        "hw:cpu_threads": "2",
        "hw:serial_port_count": "2",
        "hw:usb_model": "qemu-xhci",
        "hw:sound_model": "ich9",
        "hw:hide_hypervisor_id": "true",
        "hw:virtio_packed_ring": "true",
        "hw:viommu_model": "intel",
        "hw:maxphysaddr_mode": "emulate",
        "hw:maxphysaddr_bits": "42",
    },
)
PROPERTIES = {"os_type": "windows", "hw_machine_type": "q35", "hw_input_bus": "virtio", "hw_time_hpet": "no"}
OPTIONS: dict[str, Any] = {
    "vnc__enabled": True,
    "vnc__server_listen": "127.0.0.1",
    "cpu_mode": "custom",
    "cpu_models": ["Nehalem", "Haswell-noTSX"],
    "cpu_model_extra_flags": ["-aes"],
    "hw_disk_discard": "unmap",
    "sysinfo_serial": "hardware",
    "__preallocate_images": "space",
}


def hear(vm: Guest, number: int, words: str) -> str:
    """Returns what the guest writes to one of its serial ports, as the host's own tools read it."""
    source = vm.xml().findall("devices/serial")[number].find("source")
    assert source is not None
    terminal = os.open(source.attrib["path"], os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    heard = b""

    def complete() -> bool:
        nonlocal heard
        if select.select([terminal], [], [], 0)[0]:
            heard += os.read(terminal, 1024)
        return words.encode() in heard

    try:
        vm.ask(f"echo {words} >/dev/ttyS{number}; echo written")
        wait_for(f"{words} on serial port {number}", complete, 60)
    finally:
        os.close(terminal)
    return heard.decode()


def test_a_guest_has_what_its_flavor_and_image_choose(tmp_path: Path, libvirtd: Libvirtd, guest_image: Path) -> None:
    with guest(tmp_path, libvirtd, guest_image, PROPERTIES, FLAVOR, images_type="raw", **OPTIONS) as vm:
        vm.ready(1)
        topology = "/sys/devices/system/cpu/cpu*/topology"
        assert vm.ask(f"sort -u {topology}/physical_package_id | wc -l") == "1"
        assert vm.ask(f"cat {topology}/core_cpus_list | sort -u | tr '\\n' ' '").split() == ["0-1", "2-3"]
        assert "hello" in hear(vm, 1, "hello")
        assert vm.ask("grep -c Haswell /proc/cpuinfo; true") == "0"
        assert vm.ask("grep -cw aes /proc/cpuinfo; true") == "0"
        assert vm.ask("sed -n 's/address sizes.*: \\([0-9]*\\) bits physical.*/\\1/p' /proc/cpuinfo | sort -u") == "42"
        # A sound card, an xHCI controller, and two virtio input devices (1af4:1052).
        assert vm.ask("cat /sys/bus/pci/devices/*/class | grep -c 0x0403") == "1"
        assert vm.ask("cat /sys/bus/pci/devices/*/class | grep -c 0x0c0330") == "1"
        assert vm.ask("cat /sys/bus/pci/devices/*/device | grep -c 0x1052") == "2"
        assert vm.ask("ls /sys/firmware/acpi/tables | grep -c -e DMAR; true") == "1"
        assert vm.ask("ls /sys/firmware/acpi/tables | grep -c -e HPET; true") == "0"
        domain = vm.xml()
        clock = domain.find("clock")
        assert clock is not None
        assert clock.get("offset") == "localtime"
        assert [each.tag for each in domain.findall("features/hyperv/*")][:2] == ["relaxed", "vapic"]
        assert {(each.get("io"), each.get("discard")) for each in domain.findall("devices/disk/driver")} == {
            ("native", "unmap")
        }


def test_the_model_with_the_required_features(tmp_path: Path, libvirtd: Libvirtd, guest_image: Path) -> None:
    specs = {"trait:HW_CPU_X86_AVX2": "required"}
    flavor = msgspec.structs.replace(FLAVOR, extra_specs=specs)
    with guest(tmp_path, libvirtd, guest_image, {}, flavor, run=False, **OPTIONS) as vm:
        assert vm.xml().findtext("cpu/model") == "Haswell-noTSX"


def test_a_fault_of_libvirt_names_the_key(tmp_path: Path, libvirtd: Libvirtd, guest_image: Path) -> None:
    # A machine without an IOMMU of this model: the API would have refused the two keys, and a host of another machine takes the flavor.
    flavor = msgspec.structs.replace(FLAVOR, extra_specs={"hw:viommu_model": "smmuv3", "hw:serial_port_count": "2"})
    with (
        pytest.raises(HardwareNotOffered, match=r"smmuv3.* Flavor and image ask for hw:viommu_model=smmuv3$"),
        guest(tmp_path, libvirtd, guest_image, {}, flavor),
    ):
        pass
    # QEMU alone refuses it, at the start.
    flavor = msgspec.structs.replace(FLAVOR, extra_specs={"hw:sound_model": "pcspk"})
    with (
        pytest.raises(HypervisorError, match=r"soundhw.* Flavor and image ask for hw:sound_model=pcspk$"),
        guest(tmp_path / "2", libvirtd, guest_image, {}, flavor),
    ):
        pass


@pytest.mark.nightly("a boot more; each day compares the XML")
def test_firmware_without_variables_boots(tmp_path: Path, libvirtd: Libvirtd, guest_image: Path) -> None:
    properties = {"hw_firmware_type": "uefi", "hw_firmware_stateless": "true"}
    flavor = msgspec.structs.replace(FLAVOR, vcpus=1, memory_mb=192, extra_specs={})
    with guest(tmp_path, libvirtd, guest_image, properties, flavor) as vm:
        vm.ready(1)
        assert vm.ask("test -d /sys/firmware/efi && echo uefi") == "uefi"
        assert vm.xml().find("os/nvram") is None
