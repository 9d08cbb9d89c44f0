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


def test_a_guest_boots_from_the_kernel_of_its_image(
    tmp_path: Path, libvirtd: Libvirtd, driver: ComputeDriver, guest_image: Path
) -> None:
    cache = tmp_path / "_base"
    cache.mkdir()
    base = cache / "disk"
    shutil.copyfile(guest_image, base)
    kernel, ramdisk, line = boot_files(cache, guest_image)
    plain = Image(id="i", disk_format="qcow2")
    image = msgspec.structs.replace(
        plain, properties={"os_command_line": f"{line} {MARK}"}, kernel=kernel, ramdisk=ramdisk
    )
    new_instance: Instance = instance(image=image)
    folder = tmp_path / "instances" / new_instance.uuid
    log = folder / "console.log"
    console = GuestConsole(libvirtd.uri, new_instance.uuid, lambda: log.read_text(errors="replace").replace("\r", ""))

    def is_direct(boots: int) -> bool:
        wait_for(f"boot {boots}", lambda: log.read_text(errors="replace").count("GUEST READY") == boots, 240)
        return MARK in console.ask("cat /proc/cmdline")

    driver.prepare(new_instance, driver.available_nodes()[0], 1, base)
    driver.power_on(new_instance)
    assert is_direct(1)
    # A changed or swept cache does not matter to a guest that exists.
    for boot_file in (kernel, ramdisk):
        (cache / str(boot_file.os_hash_value)).rename(cache / str(boot_file.id + str(boot_file.size)))
    driver.hard_reboot(new_instance)
    assert is_direct(2)
    for boot_file in (kernel, ramdisk):
        (cache / str(boot_file.id + str(boot_file.size))).rename(cache / str(boot_file.os_hash_value))
    # A rescue by a plain image boots that image, and the server boots as before afterwards.
    driver.prepare_rescue(new_instance, plain, base)
    driver.power_off(new_instance.uuid)
    driver.rescue(new_instance, plain)
    assert not is_direct(3)
    # By one with a kernel, from that.
    driver.power_off(new_instance.uuid)
    driver.prepare_rescue(new_instance, image, base)
    assert (folder / "kernel.rescue").stat().st_size == kernel.size
    driver.hard_reboot(new_instance)
    assert is_direct(4)
    assert not (folder / "kernel.rescue").exists()
    # A rebuild has the kernel of the new image, or none.
    rebuilt = msgspec.structs.replace(new_instance, image=plain)
    driver.rebuild(rebuilt, base)
    driver.power_on(rebuilt)
    assert not is_direct(5)
    assert not (folder / "kernel").exists()


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
