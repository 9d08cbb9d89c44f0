"""Kernels and ramdisks, which each guest has as copies, fill no host: they are bounded, and a copy needs room above the reserve."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from minova.errors import DiskFull
from minova.objects.catalogue import kernel_boot
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import BootFile, Image
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.storage.disk_images import BaseImage
from minova.virt.libvirt.storage.disks import Disks, DiskSettings
from tests.functional.api.conftest import Cloud

MB = 1 << 20
UUID = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"
RESERVE = 1000 * MB
Step = Callable[["Host"], object]


class Host:
    """Its file system has `free` MB, before anything is written into the folder of the instance."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = 0
        self.disks = Disks(path, DiskSettings(reserve=RESERVE))
        self.folder = path / UUID
        self.folder.mkdir()
        cache = path / "_base"
        cache.mkdir()
        files = [BootFile(id=digit, size=3 * MB, os_hash_value=digit * 64) for digit in "ab"]
        for each in files:
            (cache / str(each.os_hash_value)).write_bytes(os.urandom(3 * MB))
        (cache / "disk").write_bytes(b"\0" * MB)
        self.image = Image(id="i", disk_format="raw", kernel=files[0], ramdisk=files[1])
        self.base = BaseImage(path=cache / "disk", disk_format="raw", virtual_size=MB)
        flavor = Flavor(flavorid="1", name="one", vcpus=1, memory_mb=128, root_gb=1)
        self.instance = Instance(uuid=UUID, display_name="vm", flavor=flavor, image=self.image)
        monkeypatch.setattr(shutil, "disk_usage", self._usage)

    def _usage(self, path: Path) -> SimpleNamespace:
        written = sum(file.stat().st_blocks * 512 for file in self.folder.iterdir())
        return SimpleNamespace(total=1 << 40, used=0, free=self.free * MB + RESERVE - written)

    def names(self) -> set[str]:
        return {file.name for file in self.folder.iterdir()}


def build(host: Host) -> None:
    host.disks.make(host.instance, host.base, "hv1", 1)


def rescue(host: Host) -> None:
    host.disks.make_rescue(host.instance, host.base, host.image)


def arrive(host: Host) -> None:
    host.disks.make_boot_files(host.instance, host.base.path)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("step", "made"),
    [(build, {"kernel", "ramdisk"}), (rescue, {"kernel.rescue", "ramdisk.rescue"}), (arrive, {"kernel", "ramdisk"})],
)
def test_bug_kernels_are_copied_into_the_reserve_of_the_host(host: Host, step: Step, made: set[str]) -> None:
    host.free = 5
    with pytest.raises(DiskFull, match="are reserved"):
        step(host)
    # A new disk is made only if there is room for all: a rebuild that fails keeps the former disk.
    assert not host.names() & {"disk", "disk.rescue", "ramdisk", "ramdisk.rescue"}
    host.free = 8
    step(host)
    assert made <= host.names()


@pytest.mark.parametrize("step", [build, rescue])
def test_a_guest_without_a_kernel_needs_no_room_at_once(host: Host, step: Step) -> None:
    host.image = Image(id="i", disk_format="raw")
    host.instance = Instance(uuid=UUID, display_name="vm", flavor=host.instance.flavor, image=host.image)
    host.free = -1
    step(host)
    assert host.names() & {"disk", "disk.rescue"}


def test_bug_kernels_are_as_large_as_the_memory_of_the_flavor(stocked: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = stocked.make_image("kernel")["id"]
    size = stocked.get(f"/v2/images/{kernel}")["size"]
    image = stocked.make_image("guest", kernel_id=kernel, ramdisk_id=kernel)["id"]
    server = stocked.make_server("other")["id"]
    stocked.conductor.edit(server, vm_state="active", task_state=None, host="h1", node="h1")
    flavor = stocked.make_flavor("one")["id"]
    for option in ("rescue_kernel_id", "rescue_ramdisk_id"):
        stocked.conf.set_override(option, kernel, group="libvirt")
    requests = {
        "/v2.1/servers": {"server": {"name": "vm", "flavorRef": flavor, "imageRef": image}},
        f"/v2.1/servers/{server}/action": {"rebuild": {"imageRef": image}},
        f"/v2.1/servers/{server}/action?": {"rescue": None},
    }
    assert kernel_boot.LARGEST == 512 * MB
    monkeypatch.setattr(kernel_boot, "LARGEST", 2 * size - 1)
    for path, body in requests.items():
        status, answer = stocked.ask("POST", path, body)
        assert (status, f"kernel and ramdisk have {2 * size} bytes, more than" in str(answer)) == (400, True), answer
    monkeypatch.setattr(kernel_boot, "LARGEST", 2 * size)
    assert stocked.ask("POST", "/v2.1/servers", requests["/v2.1/servers"])[0] == 202
    assert stocked.ask("POST", f"/v2.1/servers/{server}/action", {"rescue": None})[0] == 200
