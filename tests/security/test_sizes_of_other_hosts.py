"""A source of a move fills no disk of the destination: files and disks have the sizes that the guest can have."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from minova.errors import DiskFull, HypervisorError
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.disk_export import DiskExport, ExportedFile, TransferKey
from minova.objects.servers.instance import Instance
from minova.objects.servers.live_migration import LiveSource
from minova.virt.libvirt.migration import moving_disks
from minova.virt.libvirt.migration.file_bounds import LARGEST_LOG, FileBounds
from minova.virt.libvirt.migration.moving_disks import MovingDisks
from minova.virt.libvirt.storage.disk_images import Base
from minova.virt.libvirt.storage.disks import Disks

MB, GB = 1 << 20, 1 << 30
INSTANCE = Instance(
    uuid="5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11",
    display_name="one",
    flavor=Flavor(flavorid="1", name="small", vcpus=1, memory_mb=64, root_gb=1, swap=32, ephemeral_gb=1),
)
KEY = TransferKey(identity="move", secret="0" * 64)


class Destination:
    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fetched: dict[str, int] = {}
        self.content: Path | None = None
        self.disks = Disks(path)
        self._moving = MovingDisks(self.disks)
        monkeypatch.setattr(moving_disks, "fetch", self._fetch)

    def _fetch(self, path: Path, export: DiskExport, file: ExportedFile, key: TransferKey, finish: Any, _: Any) -> None:
        self.fetched[file.name] = file.size
        part = path.with_name(f"{path.name}.part")
        if self.content is not None:
            shutil.copy(self.content, part)
        else:
            part.touch()
        finish(part)
        part.rename(path)

    def fetch(self, *files: ExportedFile) -> None:
        export = DiskExport(host="one", attempt=1, files=files)
        bounds = FileBounds(INSTANCE, None)
        self._moving.fetch(INSTANCE, "two", 2, export, KEY, None, bounds, lambda: None)

    def make(self, sizes: dict[str, int], *files: ExportedFile) -> None:
        export = DiskExport(host="one", attempt=1, files=files)
        source = LiveSource(xml="", inactive_xml="", cpu_xml=None, sizes=sizes, export=export)
        self._moving.make_targets(INSTANCE, "two", 2, source, {}, KEY, None, lambda: None)


@pytest.fixture
def destination(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Destination:
    return Destination(tmp_path / "instances", monkeypatch)


def served(name: str, size: int, **more: Any) -> ExportedFile:
    return ExportedFile(name=name, export=name, size=size, **more)


TOO_LARGE = {"disk": 2 * GB, "disk.swap": 200 * MB, "disk.eph0": 2 * GB, "memory.save": 2 * GB, "nvram.fd": GB}


@pytest.mark.parametrize(("name", "size"), [*TOO_LARGE.items(), ("disk.config", GB), ("disk.eph1", 1), ("other", 1)])
def test_a_file_that_the_guest_cannot_have_is_not_fetched(destination: Destination, name: str, size: int) -> None:
    with pytest.raises(HypervisorError, match=name):
        destination.fetch(served("console.log", 1), served(name, size))
    with pytest.raises(HypervisorError, match=name):
        destination.make({}, served(name, size))
    assert destination.fetched == {}


@pytest.mark.parametrize(("name", "size"), [("disk", 2 * GB), ("disk.swap", 64 * MB), ("disk.eph1", 1), ("other", 1)])
def test_a_disk_that_the_guest_cannot_have_is_not_made(destination: Destination, name: str, size: int) -> None:
    with pytest.raises(HypervisorError, match=name):
        destination.make({name: size})


def test_a_disk_does_not_grow_beyond_its_flavor_after_the_move(destination: Destination, tmp_path: Path) -> None:
    destination.content = tmp_path / "large"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(destination.content), "1T"], check=True)
    with pytest.raises(HypervisorError, match="disk at the source has 1099511627776 bytes"):
        destination.fetch(served("disk", destination.content.stat().st_size, format="qcow2"))


def test_a_large_log_is_cut(destination: Destination) -> None:
    destination.make({}, served("disk.config", MB), served("console.log", 1 << 50), served("console.log.0", 7))
    assert destination.fetched == {"disk.config": MB, "console.log": LARGEST_LOG, "console.log.0": 7}


def test_a_file_without_room_is_not_fetched(destination: Destination, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=600 * MB)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DiskFull):
        destination.fetch(served("disk", 700 * MB, format="qcow2"))
    assert destination.fetched == {}


def test_what_a_guest_can_have_is_accepted() -> None:
    bounds = FileBounds(INSTANCE, None)
    for name, size in (("disk", GB), ("disk.swap", 32 * MB), ("disk.eph0", GB)):
        # QEMU writes tables beside the data of a full disk.
        assert bounds.of(served(name, size + size // 100)).size == size + size // 100
        bounds.require_disk(name, size)
    bounds.of(served("memory.save", 70 * MB))
    bounds.of(served("nvram.fd", 64 * MB))


def test_the_earlier_flavor_counts_too() -> None:
    after = msgspec.structs.replace(INSTANCE, flavor=msgspec.structs.replace(INSTANCE.flavor, swap=0))
    FileBounds(after, None, INSTANCE.flavor).of(served("disk.swap", 32 * MB))


def test_a_disk_without_a_size_in_the_flavor_is_as_large_as_its_image(tmp_path: Path) -> None:
    free = msgspec.structs.replace(INSTANCE, flavor=msgspec.structs.replace(INSTANCE.flavor, root_gb=0))
    bounds = FileBounds(free, Base(path=tmp_path, disk_format="qcow2", virtual_size=3 * GB))
    bounds.require_disk("disk", 3 * GB)
    with pytest.raises(HypervisorError):
        bounds.require_disk("disk", 4 * GB)
