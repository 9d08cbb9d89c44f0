"""Guests on real QEMU that would harm their host: by what they print, by what they write, by what their image asks for."""

import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from minova.errors import HardwareNotOffered
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.virt.driver import ComputeDriver
from minova.virt.libvirt.storage.disk_owner import OWNER, written_formats
from tests.integration.virt.test_guest import instance, load, prepared, remove_all
from tests.waiting import wait_for

KB, MB = 1 << 10, 1 << 20
LIMIT = 128 * KB
# mov dx, 0x3f8; mov al, 'x'; again: out dx, al; jmp again: prints on the serial port without end.
CHATTERBOX = bytes.fromhex("baf803 b078 ee ebfd").ljust(510, b"\0") + b"\x55\xaa"


@pytest.fixture
def driver(tmp_path: Path, libvirt_uri: str) -> Iterator[ComputeDriver]:
    driver = load(tmp_path, libvirt_uri, console_log_max_kb=LIMIT // KB)
    yield driver
    remove_all(driver)
    driver.close()


def test_guest_that_prints_without_end(driver: ComputeDriver, tmp_path: Path) -> None:
    image = tmp_path / "chatterbox"
    image.write_bytes(CHATTERBOX.ljust(MB, b"\0"))
    new_instance = instance(image=Image(id="i", disk_format="raw"))
    driver.prepare(new_instance, driver.available_nodes()[0], 1, image)
    driver.power_on(new_instance)
    folder = tmp_path / "instances" / new_instance.uuid
    log, kept = folder / "console.log", folder / "console.log.0"
    for _ in range(3):
        wait_for("a log beyond its limit", lambda: log.stat().st_size > LIMIT)
        before = log.stat().st_size
        driver.bound_console_logs()
        # QEMU goes on from the beginning, and leaves no hole.
        assert log.stat().st_size < before
        assert LIMIT <= kept.stat().st_size <= 2 * LIMIT + 64 * KB
        wait_for("the guest to write on", lambda: log.stat().st_size >= 100)
        with log.open("rb") as file:
            assert set(file.read(100)) <= {ord("x")}
    assert driver.console_output(new_instance.uuid, None).endswith("x" * 1000)
    assert sorted(path.name for path in folder.glob("console*")) == ["console.log", "console.log.0"]


def test_guest_that_writes_a_qcow2_header_into_its_disks(
    driver: ComputeDriver, guest_image: Path, tmp_path: Path
) -> None:
    flavor = Flavor(flavorid="1", name="m", vcpus=1, memory_mb=128, root_gb=1, ephemeral_gb=1, swap=16)
    new_instance = instance(flavor=flavor)
    (node,) = driver.available_nodes()
    driver.prepare(new_instance, node, 1, guest_image)
    before = driver.host_view(node).disk_available_least
    folder = tmp_path / "instances" / new_instance.uuid
    for name in ("disk.eph0", "disk.swap"):
        with (folder / name).open("r+b") as file:
            file.write(struct.pack(">4sIQIIQ", b"QFI\xfb", 3, 104, 0xFFFF_FFFF, 16, 0xFFFF_FFFF_FFFF_FFFF))
    after = driver.host_view(node).disk_available_least
    assert before is not None
    assert after is not None
    assert abs(after - before) <= 1
    assert driver.bases_in_use() == {guest_image.name}


def test_formats_of_a_guest_of_an_older_release(driver: ComputeDriver, guest_image: Path, tmp_path: Path) -> None:
    guest = prepared(driver, guest_image)
    folder = tmp_path / "instances" / guest.uuid
    formats = written_formats(folder)
    assert formats == {"disk": "qcow2", "disk.swap": "raw"}
    for record in (None, {"host": "hv1", "attempt": 1}):
        (folder / OWNER).unlink() if record is None else (folder / OWNER).write_bytes(msgspec.json.encode(record))
        assert written_formats(folder) == {}
        driver.own_disks([guest.uuid])
        assert written_formats(folder) == formats


def test_machine_type_that_the_host_offers_and_one_that_it_does_not(driver: ComputeDriver, guest_image: Path) -> None:
    (node,) = driver.available_nodes()
    for properties in ({"hw_machine_type": "q35"}, {"hw_machine_type": "pc", "hw_architecture": "x86_64"}):
        new_instance = instance(image=Image(id="i", disk_format="qcow2", properties=properties))
        driver.prepare(new_instance, node, 1, guest_image)
        assert [domain.uuid for domain in driver.domains() if domain.uuid == new_instance.uuid]
    for properties in ({"hw_machine_type": "pc-q35-99.0"}, {"hw_architecture": "sparc64"}):
        new_instance = instance(image=Image(id="i", disk_format="qcow2", properties=properties))
        with pytest.raises(HardwareNotOffered):
            driver.prepare(new_instance, node, 1, guest_image)
        assert not [domain.uuid for domain in driver.domains() if domain.uuid == new_instance.uuid]
