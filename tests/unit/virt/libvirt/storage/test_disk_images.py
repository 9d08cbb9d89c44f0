"""Root disks that are copies of images."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from minova.virt.libvirt.guest_files.disk_formats import RAW
from minova.virt.libvirt.storage.disk_images import BaseImage, raw_copy

MB = 1024 * 1024


@pytest.mark.parametrize("error", [None, errno.EXDEV, errno.EOPNOTSUPP])
def test_raw_copy_keeps_bytes_and_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int | None) -> None:
    """Also where the image cache is on another file system, which copy_file_range refuses with EXDEV."""
    if error is not None:

        def refused(*_: Any) -> int:
            raise OSError(error, os.strerror(error))

        monkeypatch.setattr(os, "copy_file_range", refused)
    image, disk = tmp_path / "image", tmp_path / "disk"
    with image.open("wb") as file:
        file.write(b"first" * 1000)
        file.seek(20 * MB)
        file.write(b"last" * 100_000)
    raw_copy(disk, BaseImage(path=image, disk_format=RAW, virtual_size=MB), 40 * MB, lambda _: None, lambda *_: None)
    content = disk.read_bytes()
    assert content[: image.stat().st_size] == image.read_bytes()
    assert (len(content), content[image.stat().st_size :].strip(b"\0")) == (40 * MB, b"")
    assert disk.stat().st_blocks * 512 < 4 * MB, "the hole is none of the disk"


def test_other_errors_pass_and_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "copy_file_range", full)
    (tmp_path / "image").write_bytes(b"x" * 4096)
    with pytest.raises(OSError, match="No space left"):
        raw_copy(
            tmp_path / "disk",
            BaseImage(path=tmp_path / "image", disk_format=RAW, virtual_size=MB),
            MB,
            lambda _: None,
            lambda *_: None,
        )
    assert [path.name for path in tmp_path.iterdir()] == ["image"]
