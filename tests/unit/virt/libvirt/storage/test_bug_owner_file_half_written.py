"""The owner file is replaced as a whole: readers that take no lock never find it without the formats of the disks."""

import errno
import os
import threading
from pathlib import Path

import pytest

from minova.virt.libvirt.storage import disk_owner
from minova.virt.libvirt.storage.disk_owner import OWNER, DiskOwner, locked

ENTRY = DiskOwner(host="hv1", attempt=1, formats={"disk": "qcow2"})


def write(folder: Path, entry: DiskOwner) -> None:
    with locked(folder, make=True) as owner:
        owner.write(entry)


def test_bug_reader_finds_no_format_during_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, ENTRY)
    seen = []

    def sync(handle: int) -> None:
        seen.append(disk_owner.written_formats(tmp_path))

    monkeypatch.setattr(os, "fsync", sync)
    write(tmp_path, DiskOwner(host="hv1", attempt=2, formats={"disk": "raw"}))
    assert seen[0] == {"disk": "qcow2"}
    assert seen[-1] == {"disk": "raw"}


def test_bug_disk_without_room_or_a_crash_loses_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, ENTRY)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            write(tmp_path, DiskOwner(host="hv1", attempt=2))
    assert disk_owner.read(tmp_path) == ENTRY
    assert [path.name for path in tmp_path.iterdir()] == [OWNER]
    (tmp_path / disk_owner.PART).write_bytes(b"left by a crash, longer than what is written next " * 9)
    write(tmp_path, DiskOwner(host="hv1", attempt=3))
    assert disk_owner.read(tmp_path) == DiskOwner(host="hv1", attempt=3)


def test_the_lock_holds_over_writes(tmp_path: Path) -> None:
    """Each adds one to the number in the file. Without the lock two of them read the same number."""
    write(tmp_path, DiskOwner(host="hv1", attempt=0))

    def add() -> None:
        for _ in range(25):
            with locked(tmp_path) as owner:
                for _ in range(2):
                    entry = owner.read()
                    assert entry is not None
                    owner.write(DiskOwner(host="hv1", attempt=entry.attempt + 1))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert disk_owner.read(tmp_path) == DiskOwner(host="hv1", attempt=200)
