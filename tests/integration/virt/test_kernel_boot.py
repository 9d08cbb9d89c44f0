"""A real guest boots from the kernel and ramdisk of images, in place of its disk."""

import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from minova.objects.catalogue.image import BootFile, Image
from minova.objects.servers.instance import Instance
from minova.virt.driver import ComputeDriver
from tests.integration.virt.guest_console import GuestConsole
from tests.integration.virt.test_evacuation_by_the_api import Hosts, hosts
from tests.integration.virt.test_guest import instance, load, remove_all
from tests.integration.virt.test_server_actions import real_site
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

__all__ = ["hosts"]

pytestmark = pytest.mark.timeout(900)
# The first partition of the guest's disk, a file system of DOS.
OFFSET = 2048 * 512
MARK = "minova.booted=directly"
NIGHTLY = pytest.mark.nightly("a whole cloud for two boots each")


@pytest.fixture
def driver(tmp_path: Path, libvirtd: Libvirtd) -> Iterator[ComputeDriver]:
    driver = load(tmp_path, libvirtd.uri)
    yield driver
    remove_all(driver)
    driver.close()


def cached(folder: Path, content: Path) -> BootFile:
    """Puts a file into the cache, as the compute does."""
    digest = hashlib.sha256(content.read_bytes()).hexdigest()
    content.rename(folder / digest)
    return BootFile(id="k", size=(folder / digest).stat().st_size, os_hash_value=digest)


def boot_files(folder: Path, guest_image: Path) -> tuple[BootFile, BootFile, str]:
    """Returns kernel and ramdisk of the guest's image, which are in the folder then, and its command line."""
    raw = folder / "raw"
    subprocess.run(["qemu-img", "convert", "-O", "raw", guest_image, raw], check=True)
    for name in ("vmlinuz", "initrd", "syslinux.cfg"):
        subprocess.run(["mcopy", "-n", "-i", f"{raw}@@{OFFSET}", f"::{name}", folder / name], check=True)
    raw.unlink()
    append = next(line for line in (folder / "syslinux.cfg").read_text().splitlines() if "APPEND" in line)
    return cached(folder, folder / "vmlinuz"), cached(folder, folder / "initrd"), append.split("APPEND ", 1)[1]


class Booted:
    """A guest whose image has a kernel and a ramdisk of its own, and a plain image beside it."""

    def __init__(self, tmp_path: Path, uri: str, driver: ComputeDriver, guest_image: Path) -> None:
        self.driver = driver
        self.cache = tmp_path / "_base"
        self.cache.mkdir()
        self.base = self.cache / "disk"
        shutil.copyfile(guest_image, self.base)
        self.kernel, self.ramdisk, line = boot_files(self.cache, guest_image)
        self.plain = Image(id="i", disk_format="qcow2")
        self.image = msgspec.structs.replace(
            self.plain, properties={"os_command_line": f"{line} {MARK}"}, kernel=self.kernel, ramdisk=self.ramdisk
        )
        self.instance: Instance = instance(image=self.image)
        self.folder = tmp_path / "instances" / self.instance.uuid
        self._console = GuestConsole(uri, self.instance.uuid, lambda: self._log().replace("\r", ""))
        driver.prepare(self.instance, driver.available_nodes()[0], 1, self.base)

    def _log(self) -> str:
        return (self.folder / "console.log").read_text(errors="replace")

    def is_direct(self, boots: int) -> bool:
        wait_for(f"boot {boots}", lambda: self._log().count("GUEST READY") == boots, 240)
        return MARK in self._console.ask("cat /proc/cmdline")


@pytest.fixture
def booted(tmp_path: Path, libvirtd: Libvirtd, driver: ComputeDriver, guest_image: Path) -> Booted:
    return Booted(tmp_path, libvirtd.uri, driver, guest_image)


def test_a_guest_boots_from_the_kernel_of_its_image(booted: Booted) -> None:
    booted.driver.power_on(booted.instance)
    assert booted.is_direct(1)
    # A changed or swept cache does not matter to a guest that exists.
    for boot_file in (booted.kernel, booted.ramdisk):
        (booted.cache / str(boot_file.os_hash_value)).unlink()
    booted.driver.hard_reboot(booted.instance)
    assert booted.is_direct(2)


@pytest.mark.nightly("three boots more; the files and the XML of each are tested without a guest")
def test_a_rescue_and_a_rebuild_have_the_kernel_of_their_image_or_none(booted: Booted) -> None:
    driver, guest = booted.driver, booted.instance
    # A rescue by a plain image boots that image, and the server boots as before afterwards.
    driver.prepare_rescue(guest, booted.plain, booted.base)
    driver.rescue(guest, booted.plain)
    assert not booted.is_direct(1)
    # By one with a kernel, from that.
    driver.power_off(guest.uuid)
    driver.prepare_rescue(guest, booted.image, booted.base)
    assert (booted.folder / "kernel.rescue").stat().st_size == booted.kernel.size
    driver.hard_reboot(guest)
    assert booted.is_direct(2)
    assert not (booted.folder / "kernel.rescue").exists()
    # A rebuild has the kernel of the new image, or none.
    rebuilt = msgspec.structs.replace(guest, image=booted.plain)
    driver.rebuild(rebuilt, booted.base)
    driver.power_on(rebuilt)
    assert not booted.is_direct(3)
    assert not (booted.folder / "kernel").exists()


def make_image(cli: Callable[..., str], json: Callable[..., Any], folder: Path, guest_image: Path) -> None:
    """The image `direct`, with images of its kernel and its ramdisk."""
    folder.mkdir()
    kernel, ramdisk, line = boot_files(folder, guest_image)
    properties = {"os_command_line": f"{line} {MARK}"}
    for name, boot_file in (("kernel", kernel), ("ramdisk", ramdisk)):
        file = str(folder / str(boot_file.os_hash_value))
        cli("image", "create", name, "--file", file, "--disk-format", "raw")
        properties[f"{name}_id"] = json("image", "show", name)["id"]
    words = [word for name, value in properties.items() for word in ("--property", f"{name}={value}")]
    cli("image", "create", "direct", "--file", str(guest_image), "--disk-format", "qcow2", *words)


def require_direct(uri: str, uuid: str, file: Path, boots: int, skip: int = 0) -> None:
    """The guest has booted so often, by the count on its disk, and last from its kernel. `skip`: what its console log had before."""

    def log() -> str:
        return file.read_text(errors="replace")[skip:].replace("\r", "") if file.exists() else ""

    wait_for(f"boot {boots}", lambda: f"MINOVA-GUEST BOOTS {boots}\n" in log(), 240)
    assert MARK in GuestConsole(uri, uuid, log).ask("cat /proc/cmdline")


@NIGHTLY
def test_a_shelved_guest_boots_from_its_kernel_again(tmp_path: Path, guest_image: Path) -> None:
    with real_site(tmp_path, guest_image) as site:
        make_image(site.cli, site.standalone.json, tmp_path / "files", guest_image)
        site.cli("server", "create", "direct", "--flavor", "m1.nano", "--image", "direct", "--wait")
        uuid = site.standalone.json("server", "show", "direct")["id"]
        file = site.standalone.folder / "state" / "instances" / uuid / "console.log"
        require_direct(site.libvirtd.uri, uuid, file, 1)
        site.cli("server", "shelve", "direct", "--wait")
        assert site.standalone.json("server", "show", "direct")["status"] == "SHELVED_OFFLOADED"
        assert not file.parent.exists()
        site.cli("server", "unshelve", "direct", "--wait")
        require_direct(site.libvirtd.uri, uuid, file, 2)
        assert "Traceback" not in site.standalone.log


@NIGHTLY
@pytest.mark.parametrize("hosts", [True, False], ids=["shared", "local"], indirect=True)
def test_an_evacuated_guest_boots_from_its_kernel_again(hosts: Hosts, tmp_path: Path, guest_image: Path) -> None:
    cloud = hosts.cloud
    make_image(cloud.cli, cloud.json, tmp_path / "files", guest_image)
    cloud.cli("server", "create", "direct", "--flavor", "tiny", "--image", "direct", "--host", "hv1")
    uuid = cloud.wait_status("direct", "ACTIVE")["id"]
    first_log, second_log = (hosts.folders[host] / uuid / "console.log" for host in ("hv1", "hv2"))
    require_direct(hosts.servers["hv1"].uri, uuid, first_log, 1)
    hosts.die("hv1")
    before = len(second_log.read_text(errors="replace")) if second_log.exists() else 0
    cloud.cli("service", "set", "hv1", "--disable", "--down")
    assert "evacuated" in cloud.cli("host", "evacuate", "hv1"), cloud.logs()
    assert cloud.server("direct")["OS-EXT-SRV-ATTR:host"] == "hv2"
    require_direct(hosts.servers["hv2"].uri, uuid, second_log, 2 if first_log == second_log else 1, before)
