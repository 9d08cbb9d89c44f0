"""Which base images the disks of a host stand on, as their headers say."""

import struct
from pathlib import Path

import pytest

from minova.virt.libvirt.disks import Disks

UUID = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"


def qcow2(backing: str) -> bytes:
    name = backing.encode()
    return struct.pack(">4sIQI", b"QFI\xfb", 3, 104 if name else 0, len(name)).ljust(104, b"\0") + name


@pytest.mark.parametrize(
    ("name", "data", "wanted"),
    [
        ("disk", qcow2("/var/lib/minova/instances/_base/abc"), {"abc"}),
        ("disk.part", qcow2("/elsewhere/_base/abc"), {"abc"}),
        ("disk", qcow2(""), set()),
        ("disk.eph0", b"\0" * 4096, set()),
        ("disk.swap", b"", set()),
        ("disk", b"QFI\xfb\0", set()),
    ],
)
def test_the_base_of_a_disk(tmp_path: Path, name: str, data: bytes, wanted: set[str]) -> None:
    (tmp_path / UUID).mkdir()
    (tmp_path / UUID / name).write_bytes(data)
    (tmp_path / "_base").mkdir()
    assert Disks(tmp_path).bases_in_use() == wanted


def test_a_disk_that_cannot_be_read_stops_the_clean_up_and_not_the_base(tmp_path: Path) -> None:
    (tmp_path / UUID / "disk").mkdir(parents=True)
    with pytest.raises(OSError, match="disk"):
        Disks(tmp_path).bases_in_use()
