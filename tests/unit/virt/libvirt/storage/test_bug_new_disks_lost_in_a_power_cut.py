"""Disks, kernels and config drives got their names before their bytes were on the disk, and what they replace was removed: the only
image of an unshelved server, the source's copy of a moved one, the former disks of a rebuilt one. After a power cut they had holes.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import BootFile, Image
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.guest_files.disk_formats import RAW
from minova.virt.libvirt.storage import boot_files, disk_images
from minova.virt.libvirt.storage.disk_images import BaseImage
from minova.virt.libvirt.storage.disks import Disks, DiskSettings, WriteDrive

UUID = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"
DIGEST = "ab" * 32
SIZE = 1 << 20


class Written:
    """What is on the disk: contents, by inode, and names, by folder. `events`: in their order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[tuple[str, str]] = []
        self._contents: dict[int, bytes] = {}
        fsync, rename = os.fsync, Path.rename

        def synced(handle: int) -> None:
            path = Path(f"/proc/self/fd/{handle}").readlink()
            self.events.append(("synced", path.name))
            if path.is_file():
                self._contents[path.stat().st_ino] = path.read_bytes()
            fsync(handle)

        def renamed(path: Path, target: Path) -> Path:
            self.events.append(("renamed", target.name))
            assert self._contents.get(path.stat().st_ino) == path.read_bytes(), target
            return rename(path, target)

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(Path, "rename", renamed)

    def require_names(self, folder: Path) -> None:
        """The names are on the disk, too."""
        assert self.events[-1] == ("synced", folder.name)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Written]:
    written = Written(monkeypatch)
    yield written
    assert written.events != []


@pytest.fixture
def base(tmp_path: Path) -> BaseImage:
    path = tmp_path / "cache" / "base"
    path.parent.mkdir()
    path.write_bytes(b"\1" * SIZE)
    (path.parent / DIGEST).write_bytes(b"kernel")
    return BaseImage(path=path, disk_format=RAW, virtual_size=SIZE)


def drive(part: Path) -> None:
    part.write_bytes(b"data")


def test_bug_disk_copied_from_the_only_image(tmp_path: Path, base: BaseImage, disk: Written) -> None:
    disk_images.raw_copy(tmp_path / "disk", base, SIZE, lambda _: None, lambda *_: None)
    assert ("renamed", "disk") in disk.events
    disk.require_names(tmp_path)


def test_bug_config_drive(tmp_path: Path, disk: Written) -> None:
    disk_images.written(tmp_path / "disk.config", drive, lambda part: None)
    disk.require_names(tmp_path)


def test_bug_kernel_of_a_guest_that_has_come(tmp_path: Path, base: BaseImage, disk: Written) -> None:
    image = Image(id="i", name="i", kernel=BootFile(id="k", os_hash_value=DIGEST))
    boot_files.make(tmp_path, image, base.path, lambda part: None, lambda room: None)
    assert (tmp_path / "kernel").read_bytes() == b"kernel"
    disk.require_names(tmp_path)


def test_bug_what_new_disks_replace_goes_after_they_are_on_the_disk(
    tmp_path: Path, base: BaseImage, disk: Written
) -> None:
    flavor = Flavor(flavorid="1", name="nano", vcpus=1, memory_mb=64, root_gb=0)
    instance = Instance(uuid=UUID, display_name="one", flavor=flavor, config_drive=True)
    disks = Disks(tmp_path / "instances", DiskSettings(images_type=RAW))
    disks.make(
        instance, base, "one", 1, WriteDrive(drive, is_cd=True), replaces=lambda: disk.events.append(("replaces", ""))
    )
    replaces = disk.events.index(("replaces", ""))
    for name in ("disk", "disk.config"):
        assert disk.events.index(("synced", f"{name}.part")) < replaces < disk.events.index(("renamed", name))
    disk.require_names(disks.folder(UUID))


def test_disks_that_cannot_be_written_leave_the_former_ones(
    tmp_path: Path, base: BaseImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(handle: int) -> None:
        raise OSError(5, "Input/output error")

    (tmp_path / "disk").write_bytes(b"former")
    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="Input/output error"):
        disk_images.raw_copy(tmp_path / "disk", base, SIZE, lambda _: None, lambda *_: None)
    assert (tmp_path / "disk").read_bytes() == b"former"
    assert not (tmp_path / "disk.part").exists()
