"""What a guest wrote into its ephemeral or swap disk was read as a qcow2 header: 32 bytes took the host out of scheduling, and a
forged name of a base cost gigabytes of memory (the class of CVE-2015-7548).
"""

import os
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.objects.hosts.compute_node import MAX_CAPACITY, clamped
from minova.virt.libvirt.guest_files.disk_formats import FORMATS, RAW, backing_file, growth
from tests.unit.virt.libvirt.storage.test_disks import BASE, UUID, folder_with, qcow2

MB = 1 << 20
HUGE = 0xFFFF_FFFF_FFFF_FFFF


def forged(size: int = HUGE, length: int = 100) -> bytes:
    return struct.pack(">4sIQIIQ", b"QFI\xfb", 3, 104, length, 16, size).ljust(104, b"\0") + b"/etc/shadow"


@pytest.mark.parametrize("name", [name for name, written in FORMATS.items() if written == RAW])
def test_forged_header_of_a_raw_disk_has_no_meaning(tmp_path: Path, name: str) -> None:
    disks = folder_with(tmp_path, {"disk": qcow2(BASE, size=0), name: forged()})
    os.truncate(tmp_path / UUID / name, 16 * MB)
    assert disks.growth() <= 16 * MB
    assert disks.bases_in_use() == {"abc"}


def test_forged_name_of_a_base_takes_no_memory(tmp_path: Path) -> None:
    disks = folder_with(tmp_path, {"disk": forged(length=0xFFFF_FFFF), "disk.eph0": forged(length=0xFFFF_FFFF)})
    for name in FORMATS:
        path = tmp_path / UUID / name
        path.touch()
        os.truncate(path, 64 * MB)
    tracemalloc.start()
    assert disks.bases_in_use() == frozenset()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MB


def test_disk_of_no_written_format_counts_as_large_as_its_file(tmp_path: Path) -> None:
    disks = folder_with(tmp_path, {"disk": forged(), "disk.old": forged()}, {})
    for name in ("disk", "disk.old"):
        os.truncate(tmp_path / UUID / name, 16 * MB)
    assert disks.growth() <= 32 * MB


def test_huge_virtual_size_stays_within_what_a_row_can_hold(tmp_path: Path) -> None:
    disks = folder_with(tmp_path, {"disk": qcow2(BASE, size=HUGE)})
    assert 0 < disks.growth() < 1 << 63
    assert clamped(-(disks.growth() * 1000 >> 30)) == -MAX_CAPACITY


@given(st.binary(max_size=200))
def test_any_bytes_give_a_size_and_at_most_a_short_name(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(b"QFI\xfb\0\0\0\3" + data)
    assert 0 <= growth(path, "qcow2") < 1 << 63
    assert len(backing_file(path, "qcow2") or "") <= 1023
    assert growth(path, "raw") <= path.stat().st_size
    assert backing_file(path, "raw") is None
