"""What operators run: Debian with cloud-init, by config drive and by the metadata service, on each machine and firmware.

MINOVA_DEBIAN: its image, which tools/debian-guest makes (tools/check nightly). A boot takes minutes under emulation.
"""

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.servers.instance import Instance
from minova.virt.driver import Driver
from minova.virt.driver.domains import GuestData
from tests.cluster import wait_for
from tests.integration.virt.guest_console import GuestConsole
from tests.integration.virt.test_guest import instance, load, remove_all
from tests.servers.libvirtd import Libvirtd

IMAGE = os.environ.get("MINOVA_DEBIAN", "")
BOOT = 2400.0
pytestmark = [pytest.mark.timeout(4 * BOOT), pytest.mark.skipif(not IMAGE, reason="nightly: MINOVA_DEBIAN")]
FLAVOR = Flavor(flavorid="d", name="debian", vcpus=2, memory_mb=768, root_gb=3, ephemeral_gb=1, swap=64)
# A shell on the serial port, in place of the login, that outlives cloud-init.
SHELL = """#!/bin/sh
systemctl stop serial-getty@ttyS0
systemd-run --quiet --unit test-shell sh -c 'stty -F /dev/ttyS0 -echo; exec setsid -c sh -i </dev/ttyS0 >/dev/ttyS0 2>&1'
echo DEBIAN READY >/dev/ttyS0
"""
PASSWORD = "s3cret of Debian"


class Debian:
    """A guest with a shell. `boots`: how often one was ready."""

    def __init__(self, driver: Driver, uri: str, folder: Path, one: Instance) -> None:
        self.driver, self.instance = driver, one
        self._file = folder / "instances" / one.uuid / "console.log"
        self._console = GuestConsole(uri, one.uuid, self.log)
        self._boots = 0

    def log(self) -> str:
        return self._file.read_text(errors="replace").replace("\r", "")

    def ready(self) -> None:
        """Waits for the first boot of a system from its image: user data are run once for each."""
        self._boots += 1
        wait_for("Debian", lambda: self.log().count("DEBIAN READY") == self._boots, timeout=BOOT)
        assert self.ask("cloud-init status --wait | tail -n 1") == "status: done"

    def ask(self, command: str) -> str:
        return self._console.ask(command, BOOT)


@contextmanager
def debian(
    folder: Path, file: Path, properties: dict[str, str], *, disk_format: str = "qcow2", **options: Any
) -> Iterator[Debian]:
    with Libvirtd() as server:
        driver = load(folder, server.uri, **options)
        image = Image(id="debian", disk_format=disk_format, properties={"hw_qemu_guest_agent": "yes", **properties})
        one = instance(
            display_name="debian",
            hostname="debian",
            flavor=FLAVOR,
            image=image,
            image_ref=image.id,
            config_drive=True,
            user_data=base64.b64encode(SHELL.encode()).decode(),
        )
        try:
            driver.prepare(one, driver.available_nodes()[0], 1, file, GuestData(admin_password=PASSWORD))
            driver.power_on(one)
            yield Debian(driver, server.uri, folder, one)
        finally:
            remove_all(driver)
            driver.close()


@pytest.mark.parametrize(
    ("machine", "firmware", "drive"),
    [
        ("pc", "bios", {}),
        ("q35", "bios", {"cdrom_bus": "scsi"}),
        ("q35", "uefi", {"__config_drive_format": "vfat"}),
        ("pc", "uefi", {"__config_drive_format": "vfat"}),
    ],
)
def test_cloud_init_finds_its_config_drive_and_the_disks(
    tmp_path: Path, machine: str, firmware: str, drive: dict[str, str]
) -> None:
    properties = {"hw_machine_type": machine, "hw_firmware_type": firmware}
    with debian(tmp_path, Path(IMAGE), properties, **drive) as guest:
        guest.ready()
        assert guest.ask("hostname") == "debian"
        assert guest.ask("cloud-init query platform; cloud-init query subplatform").startswith("openstack")
        assert guest.ask("test -d /sys/firmware/efi && echo uefi || echo bios") == firmware
        # The root file system has grown to the flavor's 3 GB.
        assert int(guest.ask("df --output=size -BM / | tail -n 1 | tr -dc 0-9")) > 2500
        assert int(guest.ask("df --output=size -BM /mnt | tail -n 1 | tr -dc 0-9")) in range(900, 1025)
        assert guest.ask("findmnt -n -o LABEL /mnt") == "ephemeral0"
        assert guest.ask("swapon --show=SIZE --noheadings --bytes") == str((64 << 20) - 4096)
