"""A source of a move fills no disk of the destination: files and disks have the sizes that the guest can have."""

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from minova.errors import DiskFull, HypervisorError
from minova.virt.libvirt.migration.file_bounds import LARGEST_LOG, FileBounds
from minova.virt.libvirt.storage.disk_images import BaseImage
from tests.security.move_destination import GB, INSTANCE, MB, Destination, served


@pytest.fixture
def destination(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Destination:
    return Destination(tmp_path / "instances", monkeypatch)


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
    large = destination.content["disk"] = tmp_path / "large"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(large), "1T"], check=True)
    with pytest.raises(HypervisorError, match="disk at the source has 1099511627776 bytes"):
        destination.fetch(served("disk", large.stat().st_size, format="qcow2"))


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
    bounds = FileBounds(free, BaseImage(path=tmp_path, disk_format="qcow2", virtual_size=3 * GB))
    bounds.require_disk("disk", 3 * GB)
    with pytest.raises(HypervisorError):
        bounds.require_disk("disk", 4 * GB)
