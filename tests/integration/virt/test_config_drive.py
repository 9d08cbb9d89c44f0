"""A guest reads its config drive: a CD and a disk, by the driver on real QEMU."""

import base64
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from minova import conf as configuration
from minova import virt
from minova.objects.catalogue.image import Image
from minova.objects.requests.build_extras import GuestFile
from minova.objects.servers.instance import Instance
from minova.virt.driver import ComputeDriver
from minova.virt.driver.domains import GuestData
from tests.integration.virt.test_guest import instance, remove_all
from tests.nightly import daily
from tests.unit.api.compute.test_public_keys import ED25519
from tests.waiting import wait_for

SCRIPT = """#!/bin/sh
echo MINOVA-GUEST SAYS $(cat /config/openstack/content/0000)
grep -o '"admin_pass":"[^"]*"' /config/openstack/latest/meta_data.json
grep -o 'ssh-ed25519 [^" ]*' /config/openstack/latest/meta_data.json | head -n 1
find /config -type f | wc -l
echo MINOVA-GUEST OVER
"""
DATA = GuestData(
    availability_zone="north",
    admin_password="seCret",
    files=(GuestFile(path="/etc/motd", contents=base64.b64encode(b"welcome").decode()),),
)


def text(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def load(folder: Path, uri: str, drive_format: str, bus: str | None = None) -> ComputeDriver:
    conf = configuration.load([], "test", files=[])
    conf.set_override("state_path", str(folder))
    conf.set_override("host", "hv1")
    conf.set_override("config_drive_format", drive_format)
    conf.set_override("cdrom_bus", bus, group="libvirt")
    conf.set_override("virt_type", "qemu", group="libvirt")
    conf.set_override("connection_uri", uri, group="libvirt")
    driver = virt.load(conf)
    driver.init_host("hv1")
    return driver


@pytest.fixture(params=daily(["iso9660", "vfat"], ("iso9660",), "on q35 a guest reads it each day"))
def driver(tmp_path: Path, libvirt_uri: str, request: pytest.FixtureRequest) -> Iterator[ComputeDriver]:
    driver = load(tmp_path, libvirt_uri, request.param)
    yield driver
    remove_all(driver)
    driver.close()


def with_drive() -> Instance:
    return instance(
        display_name="web",
        hostname="web",
        user_data=text(SCRIPT),
        config_drive=True,
        key_name="mine",
        key_data=ED25519,
        key_type="ssh",
    )


def test_the_guest_sees_host_name_key_user_data_password_and_files(
    driver: ComputeDriver, guest_image: Path, tmp_path: Path
) -> None:
    guest = with_drive()
    (node,) = driver.available_nodes()
    driver.prepare(guest, node, 1, guest_image, DATA)
    drive = tmp_path / "instances" / guest.uuid / "disk.config"
    assert stat.S_IMODE(drive.stat().st_mode) == stat.S_IMODE(drive.with_name("disk").stat().st_mode)
    first = drive.read_bytes()
    driver.prepare(guest, node, 1, guest_image, DATA)  # a repeated build makes it anew
    assert drive.read_bytes() != first  # by its random seed at least
    boots = 2 if driver._conf.config_drive_format == "iso9660" else 1  # type: ignore[attr-defined]  # it is there after a stop, too
    for number in range(1, boots + 1):
        driver.power_on(guest)
        wait_for("READY", lambda: driver.console_output(guest.uuid, None).count("MINOVA-GUEST READY") == number)  # noqa: B023
        driver.power_off(guest.uuid)
    lines = driver.console_output(guest.uuid, None).splitlines()
    assert sum("READY hostname=web.novalocal" in line for line in lines) == boots
    assert sum(f"uuid={guest.uuid}" in line for line in lines if "CONFIGDRIVE" in line) == boots
    assert sum("MINOVA-GUEST SAYS welcome" in line for line in lines) == boots
    assert any('"admin_pass":"seCret"' in line for line in lines)
    assert any(ED25519 in line for line in lines)
    driver.destroy(guest.uuid)
    assert not drive.parent.exists()


def test_a_guest_without_a_config_drive_has_none(driver: ComputeDriver, guest_image: Path, tmp_path: Path) -> None:
    guest = msgspec.structs.replace(with_drive(), config_drive=False)
    driver.prepare(guest, driver.available_nodes()[0], 1, guest_image, DATA)
    assert not (tmp_path / "instances" / guest.uuid / "disk.config").exists()


@pytest.mark.parametrize(
    ("drive_format", "bus"), daily([("iso9660", "scsi"), ("vfat", None)], [("vfat", None)], "the other cure")
)
def test_bug_a_kernel_for_clouds_saw_no_config_drive_on_q35(
    tmp_path: Path, libvirt_uri: str, guest_image: Path, drive_format: str, bus: str | None
) -> None:
    """The guest has Debian's kernel for clouds, which has no driver for a CD on SATA."""
    driver = load(tmp_path, libvirt_uri, drive_format, bus)
    image = Image(id="i", disk_format="qcow2", properties={"hw_machine_type": "q35"})
    guest = msgspec.structs.replace(with_drive(), image=image)
    try:
        driver.prepare(guest, driver.available_nodes()[0], 1, guest_image, DATA)
        driver.power_on(guest)
        wait_for("READY", lambda: "MINOVA-GUEST READY" in driver.console_output(guest.uuid, None), timeout=240)
        assert "MINOVA-GUEST READY hostname=web.novalocal" in driver.console_output(guest.uuid, None)
    finally:
        remove_all(driver)
        driver.close()
