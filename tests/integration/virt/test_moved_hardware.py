"""A guest that moves while it is off keeps its kernel, its machine and the PCI addresses of its devices, also in its first minute.

By day the definitions are compared; at night the guest boots on both hosts.
"""

import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from xml.etree import ElementTree as ET

import libvirt
import msgspec
import pytest

from minova.objects.catalogue.image import Image
from minova.objects.servers.disk_export import PciAddresses
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.driver import LibvirtDriver
from minova.virt.libvirt.storage.disks import Disks
from tests.integration.virt.test_cold_moves import MOVE, Side, boot, console, key, move, never, side
from tests.integration.virt.test_guest import instance
from tests.integration.virt.test_kernel_boot import MARK, boot_files, cached
from tests.servers.libvirtd import ACCOUNT

pytestmark = pytest.mark.timeout(900)
# No addresses that libvirt gives by itself. The guest's kernel names its disks in the order of their addresses.
ADDRESS = "0000:00:1a.0"
ADDRESSES = PciAddresses(machine="pc", devices={"disk": ADDRESS, "disk.swap": "0000:00:1b.0"})


def hardware(side: Side, guest: Instance) -> tuple[str | None, str | None, str | None]:
    """Returns machine, command line and the slot of the root disk."""
    connection = libvirt.open(side.libvirtd.uri)
    try:
        root = ET.fromstring(connection.lookupByUUIDString(guest.uuid).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
    finally:
        connection.close()
    machine, address = root.find("os/type"), root.find("devices/disk/address")
    assert machine is not None
    assert address is not None
    return machine.get("machine"), root.findtext("os/cmdline"), address.get("slot")


def require_seen(side: Side, guest: Instance, boots: int) -> None:
    """The guest itself sees its command line and the address of its disk."""
    boot(side, guest, boots)
    shell = console(side, guest)
    assert MARK in shell.ask("cat /proc/cmdline")
    assert ADDRESS in shell.ask("readlink -f /sys/block/vda")
    side.driver.power_off(guest.uuid)


@pytest.mark.parametrize("boots", [False, pytest.param(True, marks=pytest.mark.nightly("two boots"))])
def test_a_new_guest_moves_with_its_kernel_and_its_addresses(tmp_path: Path, guest_image: Path, boots: bool) -> None:
    cache = tmp_path / "_base"
    cache.mkdir()
    shutil.copyfile(guest_image, cache / "image")
    base = cache / str(cached(cache, cache / "image").os_hash_value)
    kernel, ramdisk, line = boot_files(cache, guest_image)
    properties = {"os_command_line": f"{line} {MARK}", "hw_machine_type": "pc"}
    image = Image(id="i", disk_format="qcow2", properties=properties, kernel=kernel, ramdisk=ramdisk)
    files_of_image = (("kernel", kernel), ("ramdisk", ramdisk))
    with ExitStack() as stack:
        source, destination = (stack.enter_context(side(name, tmp_path / name, base)) for name in ("hv1", "hv2"))
        guest = instance(image=image, config_drive=True)
        source.driver.prepare(guest, source.node, 1, source.image)
        # What the report of the build carries.
        chosen = source.driver.chosen_hardware([guest.uuid])[guest.uuid]
        guest = msgspec.structs.replace(guest, system_metadata=chosen.recorded)
        assert isinstance(source.driver, LibvirtDriver)
        source.driver._disks.note_addresses(guest.uuid, lambda _: ADDRESSES)
        source.driver.hard_reboot(guest)
        source.driver.power_off(guest.uuid)
        before = hardware(source, guest)
        assert before == (chosen.machine_type, f"{line} {MARK}", "0x1a")
        if boots:
            require_seen(source, guest, 1)
        move(guest, source, destination, 2)
        assert hardware(destination, guest) == before
        for name, boot_file in files_of_image:
            assert (destination.disks(guest) / name).stat().st_size == boot_file.size
        if boots:
            require_seen(destination, guest, 2)


def test_bug_guest_with_a_kernel_could_not_be_served_once_it_was_off(guest_image: Path) -> None:
    """libvirt leaves the kernel of a guest that is off to root alone, and the program that serves it is not root."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="minova-moves-")))
        folder.chmod(0o755)
        cache = folder / "_base"
        cache.mkdir(mode=0o755)
        shutil.copyfile(guest_image, cache / "image")
        base = cache / str(cached(cache, cache / "image").os_hash_value)
        kernel, ramdisk, _ = boot_files(cache, guest_image)
        digests = [str(each.os_hash_value) for each in (kernel, ramdisk)]
        guest = instance(image=Image(id="i", disk_format="qcow2", kernel=kernel, ramdisk=ramdisk))
        source = stack.enter_context(side("hv1", folder / "hv1", base, qemu_user=ACCOUNT))
        source.folder.chmod(0o755)
        source.driver.prepare(guest, source.node, 1, source.image)
        source.driver.power_on(guest)
        source.driver.require_movable(guest, images=digests)
        source.driver.power_off(guest.uuid)
        kernel_file, secret = source.disks(guest) / "kernel", key()
        assert (kernel_file.stat().st_uid, kernel_file.stat().st_gid) == (0, 0)
        assert source.driver.export_disks(guest, MOVE, secret).images == ()
        export = source.driver.export_disks(guest, MOVE, secret, images=[*digests, base.name])
        assert {file.name for file in export.images} == {*digests, base.name}
        source.driver.fetch_image(folder / "fetched", export, export.images[-1], secret, never)
        assert (folder / "fetched").read_bytes() == (cache / digests[-1]).read_bytes()
        # A file that the program cannot read does not keep the disks from being served.
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(Disks, "share_image_file", lambda *_: True)
        os.chown(kernel_file, 0, 0)
        source.driver.stop_export(MOVE)
        export = source.driver.export_disks(guest, MOVE, secret, images=digests)
        assert export.port
        assert export.images == ()
        source.driver.stop_export(MOVE)
