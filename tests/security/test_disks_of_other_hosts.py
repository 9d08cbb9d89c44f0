"""A qcow2 disk that another host has sent names no file of this host."""

import struct
import subprocess
from pathlib import Path

import pytest

from minova.errors import UnknownDiskFormat
from minova.virt.libvirt.guest_files.disk_formats import require_own_kind


def made(path: Path, *options: str) -> Path:
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *options, str(path), "1M"], check=True, cwd=path.parent)
    return path


def test_a_disk_of_minova_is_accepted(tmp_path: Path) -> None:
    base = made(tmp_path / "base")
    require_own_kind(made(tmp_path / "disk", "-b", str(base), "-F", "qcow2"))


@pytest.mark.parametrize(
    "options",
    [
        ("-o", "data_file=secret,data_file_raw=on"),
        ("-o", "encrypt.format=luks,encrypt.key-secret=s", "--object", "secret,id=s,data=x"),
        ("-o", "extended_l2=on"),
    ],
)
def test_a_disk_that_minova_does_not_make_is_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    with pytest.raises(UnknownDiskFormat):
        require_own_kind(made(tmp_path / "disk", *options))


@pytest.mark.parametrize("content", [b"", b"QFI\xfb", struct.pack(">4sI", b"QFI\xfb", 9).ljust(200, b"\0")])
def test_a_broken_header_is_refused(tmp_path: Path, content: bytes) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(content)
    with pytest.raises(UnknownDiskFormat):
        require_own_kind(disk)
