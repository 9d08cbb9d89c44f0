"""Whether QEMU has an image open, by the locks that it holds on it; and the same locks, so that no QEMU opens an image.

QEMU locks single bytes of each image that it opens (its `block/file-posix.c`): from 100 on for what it does with the
image, from 200 on for what it forbids others. The locks are on the file, so they tell the truth although libvirt has
lost or mistaken the guest.
"""

import fcntl
import os
import struct
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

_FIRST_BYTE, _BYTES = 100, 200
# Writing, writing what is there already, resizing. The QEMU of a guest that has left still reads the header of its image.
_WRITES, _FORBIDS_WRITES, _KINDS = 101, 201, 3
# Linux's struct flock: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi4x")


def is_open(path: Path) -> bool:
    """Whether another process has the image open as QEMU does. False for a file that is gone, and where the file system
    has no such locks.
    """
    try:
        with path.open("rb") as file:
            return _is_locked(file.fileno(), _FIRST_BYTE, _BYTES)
    except FileNotFoundError:
        return False
    except OSError as error:
        if isinstance(error, PermissionError):
            raise
        return False


class ImageHold:
    """Holds images that no QEMU writes, so that none begins to do so before `release` or the end of this process.

    A guest that has left its host by a live migration is paused there, and its QEMU has given up its disks. libvirt continues it if the
    answer of the destination is lost. QEMU refuses that while the disks are held.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._files: list[IO[bytes]] = []
        self._lock = threading.Lock()
        self._works = False

    def works(self) -> bool:
        """Whether the guest's QEMU locks its images, and this process may open them: asked while the guest has them open, and remembered."""
        try:
            self._works = self._works or (bool(self._paths) and all(is_open(path) for path in self._paths))
        except OSError:
            return False
        return self._works

    def is_written(self) -> bool:
        """Whether a QEMU writes one of the images, or this cannot be seen. Sets no lock: QEMU takes no lock of an image while it meets
        another one.
        """
        try:
            return not all(_is_free(path) for path in self._paths)
        except OSError:
            return True

    @property
    def taken(self) -> bool:
        return bool(self._files)

    def take(self) -> bool:
        """Returns whether the images are held now. False: a QEMU writes one of them."""
        with self._lock:
            if self._files:
                return True
            with ExitStack() as opened:
                try:
                    files: list[IO[bytes]] = [opened.enter_context(path.open("rb")) for path in self._paths]
                    is_held = bool(files) and all(_forbid(file.fileno()) for file in files)
                except OSError:
                    return False
                if is_held:
                    opened.pop_all()
                    self._files = files
                return is_held

    def release(self) -> None:
        """Idempotent."""
        with self._lock:
            for file in self._files:
                file.close()
            self._files = []


def _is_free(path: Path) -> bool:
    with path.open("rb") as file:
        return not _is_locked(file.fileno(), _WRITES, _KINDS)


def _forbid(fd: int) -> bool:
    """Forbid writing as a QEMU does, and return whether no other one writes. In this order one of two sees the other. A QEMU that writes is
    left alone.
    """
    if _is_locked(fd, _WRITES, _KINDS):
        return False
    requested_lock = _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, _FORBIDS_WRITES, _KINDS, 0)
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, requested_lock)
    return not _is_locked(fd, _WRITES, _KINDS)


def _is_locked(fd: int, first: int, count: int) -> bool:
    """Whether another process has locked one of so many bytes from `first` on."""
    probe = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, first, count, 0)
    lock_type: int = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, probe))[0]
    return lock_type != fcntl.F_UNLCK
