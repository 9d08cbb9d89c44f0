"""Which base images the disks of a host stand on, as the headers of its qcow2 disks say."""

import errno
import os
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest

from minova.errors import UnknownDiskFormat
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.guest_files.disk_formats import FORMATS
from minova.virt.libvirt.storage.disk_owner import OWNER, DiskOwner
from minova.virt.libvirt.storage.disks import Disks

UUID = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"
GB = 1 << 30
BASE = "/var/lib/minova/instances/_base/abc"


def qcow2(backing: str, **lies: int) -> bytes:
    name = backing.encode()
    header = {
        "version": 3,
        "offset": 104 if name else 0,
        "length": len(name),
        "cluster_bits": 16,
        "size": 1 << 30,
    } | lies
    return struct.pack(">4sIQIIQ", b"QFI\xfb", *header.values()).ljust(104, b"\0") + name


def folder_with(path: Path, files: dict[str, bytes], formats: dict[str, str] = FORMATS) -> Disks:
    folder = path / UUID
    folder.mkdir()
    (path / "_base").mkdir()
    (folder / OWNER).write_bytes(msgspec.json.encode(DiskOwner(host="hv1", attempt=1, formats=formats)))
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return Disks(path)


@pytest.mark.parametrize(
    ("name", "data", "wanted"),
    [
        ("disk", qcow2(BASE), {"abc"}),
        ("disk", qcow2(BASE, version=2), {"abc"}),
        ("disk.part", qcow2("/elsewhere/_base/abc"), {"abc"}),
        ("disk", qcow2(""), set()),
        ("disk", b"QFI\xfb\0", set()),
        ("disk", b"", set()),
        ("disk.eph0", b"\0" * 4096, set()),
        ("disk.swap", b"", set()),
    ],
)
def test_the_base_of_a_disk(tmp_path: Path, name: str, data: bytes, wanted: set[str]) -> None:
    assert folder_with(tmp_path, {name: data}).bases_in_use() == wanted


@pytest.mark.parametrize(
    "lies",
    [
        {"version": 1},
        {"cluster_bits": 8},
        {"cluster_bits": 63},
        {"length": 1024},
        {"length": 0xFFFF_FFFF},
        {"offset": 0xFFFF_FFFF_FFFF_FFFF},
        {"offset": (1 << 16) - 1},
    ],
)
def test_a_header_that_qemu_would_refuse_names_no_base(tmp_path: Path, lies: dict[str, int]) -> None:
    assert folder_with(tmp_path, {"disk": qcow2(BASE, **lies)}).bases_in_use() == frozenset()


@pytest.mark.parametrize("name", ["disk", "disk.old"])
def test_a_disk_of_no_written_format_stops_the_clean_up(tmp_path: Path, name: str) -> None:
    disks = folder_with(tmp_path, {name: qcow2(BASE)}, {"disk.eph0": "raw"})
    with pytest.raises(UnknownDiskFormat, match=f"{UUID}/{name}:"):
        disks.bases_in_use()


def test_what_a_guest_may_write_during_a_snapshot_counts(tmp_path: Path) -> None:
    disks = folder_with(tmp_path, {"disk": qcow2(BASE)})
    before = disks.growth()
    (tmp_path / UUID / "snapshot.overlay").write_bytes(qcow2("disk"))
    assert (before > GB // 2, disks.growth()) == (True, 2 * before)


def test_a_disk_that_cannot_be_read_stops_the_clean_up_and_not_the_base(tmp_path: Path) -> None:
    disks = folder_with(tmp_path, {})
    (tmp_path / UUID / "disk").mkdir(parents=True)
    with pytest.raises(UnknownDiskFormat, match="cannot be read"):
        disks.bases_in_use()


def test_base_of_a_root_disk_is_lost_once_its_file_is_gone(tmp_path: Path) -> None:
    base = tmp_path / "_base" / "abc"
    disks = folder_with(tmp_path, {"disk": qcow2(str(base))})
    assert disks.lost_base(UUID) == base
    base.touch()
    assert disks.lost_base(UUID) is None


@pytest.mark.parametrize("files", [{}, {"disk": qcow2("")}, {"disk": b""}])
def test_disk_without_a_base_has_lost_none(tmp_path: Path, files: dict[str, bytes]) -> None:
    assert folder_with(tmp_path, files).lost_base(UUID) is None


def test_raw_disk_has_lost_no_base_whatever_the_guest_writes_into_it(tmp_path: Path) -> None:
    disks = folder_with(tmp_path, {"disk": qcow2("/gone")}, {"disk": "raw"})
    assert disks.lost_base(UUID) is None


def test_folder_that_cannot_be_read_hides_no_other_disk_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks = folder_with(tmp_path, {"disk": qcow2(BASE)})
    before = disks.growth()
    broken = tmp_path / "broken"
    broken.mkdir()
    scan = os.scandir

    def scandir(path: Any) -> Any:
        if Path(path) == broken:
            raise OSError(errno.EIO, "Input/output error", str(broken))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert disks.growth() == before > 0
    # What is not known to be unused stays.
    with pytest.raises(UnknownDiskFormat, match="broken cannot be read"):
        disks.bases_in_use()


@pytest.mark.parametrize(
    ("files", "there"),
    [(["disk", "disk.swap"], True), (["disk"], False), (["disk.part", "disk.swap"], False), ([], False)],
)
def test_disks_are_there_if_each_of_the_flavor_is_complete(tmp_path: Path, files: list[str], there: bool) -> None:
    """The config drive is made again, so it does not count."""
    flavor = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=128, root_gb=1, swap=64)
    instance = Instance(uuid=UUID, display_name="s", flavor=flavor, config_drive=True)
    assert folder_with(tmp_path, dict.fromkeys(files, b"\0" * 512)).are_there(instance) is there


def test_disks_without_a_folder_are_not_there(tmp_path: Path) -> None:
    flavor = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=128, root_gb=1)
    assert not Disks(tmp_path).are_there(Instance(uuid=UUID, display_name="s", flavor=flavor))
