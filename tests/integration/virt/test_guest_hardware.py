"""What images and flavors choose of a guest's hardware and disks, seen from inside of real guests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import libvirt
import msgspec
import pytest

from minova.objects.catalogue.flavor import Flavor, LocalDisk
from minova.objects.catalogue.image import Image
from minova.objects.guests.local_disks import to_metadata
from minova.objects.servers.instance import Instance
from minova.virt.driver import ComputeDriver
from tests.integration.virt.guest_console import GuestConsole
from tests.integration.virt.test_guest import instance, load, remove_all
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(600)
FLAVOR = Flavor(
    flavorid="1",
    name="nano",
    vcpus=1,
    memory_mb=160,
    root_gb=1,
    ephemeral_gb=1,
    swap=32,
    extra_specs={"hw_rng:rate_bytes": "4096", "quota:disk_write_bytes_sec": "8388608", "hw:watchdog_action": "reset"},
)
PROPERTIES = {
    "hw_disk_bus": "scsi",
    "hw_scsi_model": "virtio-scsi",
    "hw_rng_model": "virtio",
    "hw_qemu_guest_agent": "yes",
    "hw_video_model": "cirrus",
}
DIVISION = (
    LocalDisk(size_mb=64, guest_format="ext2"),
    LocalDisk(size_mb=128, bus="virtio"),
    LocalDisk(size_mb=16, guest_format="swap"),
)
# Registers of an i6300esb: unlock, both stages 100 ms, reload, enable. The kernel of the guest has no driver of it.
BITE = r"""d=$(dirname $(grep -l 0x25ab /sys/bus/pci/devices/*/device)); echo 1 >$d/enable; b=$(head -n 1 $d/resource | cut -d" " -f1);
u() { devmem $((b + 12)) 16 0x80; devmem $((b + 12)) 16 0x86; }; u; devmem $((b)) 32 100; u; devmem $((b + 4)) 32 100;
u; devmem $((b + 12)) 16 0x100; printf "\\002" | dd of=$d/config bs=1 seek=104 conv=notrunc 2>/dev/null; echo bitten""".replace(
    "\n", " "
)


class Guest:
    def __init__(self, driver: ComputeDriver, libvirtd: Libvirtd, folder: Path, one: Instance) -> None:
        self.driver, self.libvirtd, self.instance, self.folder = driver, libvirtd, one, folder / "instances" / one.uuid
        self._console = GuestConsole(libvirtd.uri, one.uuid, self.log)

    def log(self) -> str:
        file = self.folder / "console.log"
        return file.read_text(errors="replace").replace("\r", "") if file.exists() else ""

    def ready(self, boots: int) -> None:
        try:
            wait_for(f"boot {boots}", lambda: self.log().count("MINOVA-GUEST READY") == boots, 240)
        except AssertionError as error:
            error.add_note(f"The console ends with:\n{self.log()[-3000:]}")
            raise

    def ask(self, command: str) -> str:
        return self._console.ask(command)

    def xml(self) -> ET.Element:
        connection = libvirt.open(self.libvirtd.uri)
        try:
            return ET.fromstring(connection.lookupByUUIDString(self.instance.uuid).XMLDesc(0))
        finally:
            connection.close()


@contextmanager
def guest(
    folder: Path,
    libvirtd: Libvirtd,
    file: Path,
    properties: dict[str, str],
    flavor: Flavor,
    *,
    run: bool = True,
    has_config_drive: bool = False,
    **more: Any,
) -> Iterator[Guest]:
    driver = load(folder, libvirtd.uri, **more)
    image = Image(id="i", disk_format="qcow2", properties=properties)
    new_guest = msgspec.structs.replace(
        instance(config_drive=has_config_drive),
        image=image,
        flavor=flavor,
        system_metadata=to_metadata(DIVISION),
    )
    try:
        driver.prepare(new_guest, driver.available_nodes()[0], 1, file)
        if run:
            driver.power_on(new_guest)
        yield Guest(driver, libvirtd, folder, new_guest)
    finally:
        remove_all(driver)
        driver.close()


@pytest.mark.nightly("a minute; each day compares the XML of each device")
def test_disks_and_devices_from_inside(tmp_path: Path, libvirtd: Libvirtd, guest_image: Path) -> None:
    with guest(tmp_path, libvirtd, guest_image, PROPERTIES, FLAVOR, images_type="raw") as vm:
        vm.ready(1)
        # By the bus of the image, and one disk by its own; in sectors. A kernel names disks of one bus as it finds them.
        sizes = vm.ask("cat /sys/block/sd?/size /sys/block/vd?/size | tr '\\n' ' '").split()
        assert sorted(map(int, sizes[:3])) == [16 << 11, 64 << 11, 1 << 21]
        assert sizes[3:] == [str(128 << 11)]
        assert vm.ask("findfs LABEL=ephemeral0").startswith("/dev/sd")
        assert vm.ask("findfs LABEL=ephemeral1") == "/dev/vda"
        written = "mount -t ext4 /dev/vda /disk && echo kept >/disk/file && umount /disk && echo written"
        assert vm.ask(written) == "written"
        swap = vm.ask("grep -l '^32768$' /sys/block/sd?/size | cut -d/ -f4")
        assert vm.ask(f"swapon /dev/{swap} && awk '/sd/ {{print $3}}' /proc/swaps") == str(16 * 1024 - 4)
        assert vm.ask("cat /sys/class/misc/hw_random/rng_current") == "virtio_rng.0"
        assert vm.ask("dd if=/dev/hwrng bs=16 count=1 2>/dev/null | wc -c") == "16"
        assert vm.ask("cat /sys/class/virtio-ports/*/name") == "org.qemu.guest_agent.0"
        assert vm.ask("cat /sys/bus/pci/devices/*/class | grep -c 0x0300") == "1"
        tuning = vm.xml().findall("devices/disk/iotune/write_bytes_sec")
        assert [limit.text for limit in tuning] == ["8388608"] * 4
        names = ["console.log", "disk", "disk.eph0", "disk.eph1", "disk.swap", "owner.json"]
        assert sorted(path.name for path in vm.folder.iterdir()) == names

        # Nothing feeds it: it resets the guest, whose disks stay.
        assert vm.ask(BITE) == "bitten"
        vm.ready(2)
        assert vm.ask("mount -t ext4 /dev/vda /disk && cat /disk/file; umount /disk") == "kept"
        vm.driver.hard_reboot(vm.instance)
        assert len(vm.xml().findall("devices/disk")) == 4
        assert sorted(path.name for path in vm.folder.iterdir()) == names
    assert not vm.folder.exists()


def variables(libvirtd: Libvirtd) -> list[str]:
    """The files in which firmware keeps the variables of guests."""
    return [path.name for path in (libvirtd.directory / "lib").rglob("*_VARS.fd")]


def test_guest_boots_by_uefi_and_its_variables_go_with_it(
    tmp_path: Path, libvirtd: Libvirtd, guest_image: Path
) -> None:
    small = msgspec.structs.replace(FLAVOR, memory_mb=256, extra_specs={})
    with guest(tmp_path, libvirtd, guest_image, {"hw_firmware_type": "uefi"}, small, has_config_drive=True) as vm:
        vm.ready(1)
        assert vm.ask("[ -d /sys/firmware/efi ] && echo uefi") == "uefi"
        # Its firmware leaves the controller of an IDE CD off, unless it may boot from there.
        assert f"MINOVA-GUEST CONFIGDRIVE /dev/sr0 uuid={vm.instance.uuid}" in vm.log()
        assert variables(libvirtd) == [f"instance-{vm.instance.uuid}_VARS.fd"]
    assert variables(libvirtd) == []


def test_guest_starts_with_the_firmware_of_secure_boot(tmp_path: Path, libvirtd: Libvirtd, guest_image: Path) -> None:
    properties = {"hw_firmware_type": "uefi", "os_secure_boot": "required"}
    small = msgspec.structs.replace(FLAVOR, extra_specs={})
    with guest(tmp_path, libvirtd, guest_image, properties, small) as vm:
        loader = vm.xml().find("os/loader")
        assert loader is not None
        assert (loader.get("secure"), ".ms." in (loader.text or "")) == ("yes", True)
    assert variables(libvirtd) == []


def test_bug_rebuild_keeps_the_firmware_variables_of_the_former_guest(
    tmp_path: Path, libvirtd: Libvirtd, guest_image: Path
) -> None:
    small = msgspec.structs.replace(FLAVOR, extra_specs={})
    with guest(tmp_path, libvirtd, guest_image, {"hw_firmware_type": "uefi"}, small) as vm:
        [file] = (libvirtd.directory / "lib").rglob("*_VARS.fd")
        written = b"written by the former guest"
        with file.open("r+b") as out:
            out.seek(-len(written), 2)
            out.write(written)
        properties = {"hw_firmware_type": "uefi", "os_secure_boot": "required"}
        image = Image(id="j", disk_format="qcow2", properties=properties)
        rebuilt = msgspec.structs.replace(vm.instance, image=image)
        vm.driver.rebuild(rebuilt, guest_image)
        vm.driver.power_on(rebuilt)
        variables = file.read_bytes()
        assert written not in variables
        # Keys that firmware enrolls are certificates of Microsoft.
        assert b"Microsoft" in variables
    assert not file.exists()


def test_bug_changed_option_gives_an_existing_guest_another_machine(
    tmp_path: Path, libvirtd: Libvirtd, guest_image: Path
) -> None:
    """Without a record it is the domain that says which machine the guest has; a rebuild chooses anew."""

    def machine(xml: ET.Element) -> str:
        kind = xml.find("os/type")
        assert kind is not None
        return kind.get("machine", "")[: len("pc-q35")]

    small = msgspec.structs.replace(FLAVOR, extra_specs={})
    with guest(tmp_path, libvirtd, guest_image, {}, small, run=False) as vm:
        [chosen] = vm.driver.chosen_hardware([vm.instance.uuid]).values()
        assert chosen.machine_type.startswith("pc-i440fx-")
        changed = load(tmp_path, libvirtd.uri, hw_machine_type=["x86_64=q35"])
        try:
            changed.hard_reboot(vm.instance)
            assert machine(vm.xml()) == "pc-i44"
            recorded = msgspec.structs.replace(vm.instance, system_metadata=chosen.recorded)
            changed.rebuild(recorded, guest_image)
            assert machine(vm.xml()) == "pc-q35"
            changed.hard_reboot(recorded)
            assert machine(vm.xml()) == "pc-i44"
        finally:
            changed.close()


@pytest.mark.parametrize(("properties", "targets"), [
    ({"hw_rescue_device": "disk"}, ["vda", "vdb"]),
    ({"hw_rescue_device": "cdrom", "hw_rescue_bus": "sata"}, ["vda", "sda"]),
])  # fmt: skip
def test_a_rescue_disk_behind_the_others_is_the_one_that_boots(
    tmp_path: Path, libvirtd: Libvirtd, guest_image: Path, properties: dict[str, str], targets: list[str]
) -> None:
    small = msgspec.structs.replace(FLAVOR, extra_specs={}, ephemeral_gb=0, swap=0)
    with guest(tmp_path, libvirtd, guest_image, {"hw_machine_type": "q35"}, small) as vm:
        plain = msgspec.structs.replace(vm.instance, system_metadata={})
        vm.driver.hard_reboot(plain)
        image = Image(id="r", disk_format="qcow2", properties=properties)
        vm.driver.prepare_rescue(plain, image, guest_image)
        vm.driver.power_off(plain.uuid)
        before = vm.log().count("MINOVA-GUEST READY")
        vm.driver.rescue(plain, image)
        disks = vm.xml().findall("devices/disk")
        sources = [Path(source.get("file", "")).name for source in vm.xml().findall("devices/disk/source")]
        assert sources == ["disk", "disk.rescue"]
        assert [target.get("dev") for target in vm.xml().findall("devices/disk/target")] == targets
        assert [[boot.get("order") for boot in disk.findall("boot")] for disk in disks] == [[], ["1"]]
        if properties["hw_rescue_device"] == "disk":
            wait_for("the rescue disk boots", lambda: vm.log().count("MINOVA-GUEST READY") > before, 240)
        vm.driver.power_off(plain.uuid)
        vm.driver.rescue(plain)  # as at the start of the host
        assert [target.get("dev") for target in vm.xml().findall("devices/disk/target")] == targets
        vm.driver.hard_reboot(plain)
        assert len(vm.xml().findall("devices/disk")) == 1
        assert vm.xml().find("os/boot") is not None


def test_libvirt_takes_every_limit(tmp_path: Path, libvirtd: Libvirtd, guest_image: Path) -> None:
    limits = {
        "quota:cpu_shares": "512",
        "quota:cpu_period": "20000",
        "quota:cpu_quota": "10000",
        "quota:disk_total_iops_sec": "100",
        "quota:disk_total_iops_sec_max": "200",
        "quota:disk_size_iops_sec": "4096",
        "hw_video:ram_max_mb": "16",
    }
    properties = {"hw_boot_menu": "yes", "hw_video_model": "vga", "hw_video_ram": "16"}
    limited = msgspec.structs.replace(FLAVOR, extra_specs=limits)
    # It is not started: the control groups of the machine are hidden from the tests' libvirtd.
    with guest(tmp_path, libvirtd, guest_image, properties, limited, run=False) as vm:
        domain = vm.xml()
        tuning = {child.tag: child.text for child in domain.findall("cputune/*")}
        assert tuning == {"shares": "512", "period": "20000", "quota": "10000"}
        assert domain.findtext("devices/disk/iotune/total_iops_sec_max") == "200"
        model = domain.find("devices/video/model")
        assert model is not None
        assert (model.get("type"), model.get("vram")) == ("vga", "16384")
