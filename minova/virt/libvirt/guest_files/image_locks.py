"""Whether QEMU has an image open, by the locks that it holds on it.

QEMU locks single bytes of each image that it opens (its `block/file-posix.c`): from 100 on for what it does with the
image, from 200 on for what it forbids others. The locks are on the file, so they tell the truth although libvirt has
lost or mistaken the guest.
"""

import fcntl
import os
import struct
from pathlib import Path

_FIRST_BYTE, _BYTES = 100, 200
# Linux's struct flock: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi4x")


def is_open(path: Path) -> bool:
    """Whether another process has the image open as QEMU does. False for a file that is gone, and where the file system
    has no such locks.
    """
    probe = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _FIRST_BYTE, _BYTES, 0)
    try:
        with path.open("rb") as file:
            answer = fcntl.fcntl(file.fileno(), fcntl.F_OFD_GETLK, probe)
    except FileNotFoundError:
        return False
    except OSError as error:
        if isinstance(error, PermissionError):
            raise
        return False
    held: int = _FLOCK.unpack(answer)[0]
    return held != fcntl.F_UNLCK
