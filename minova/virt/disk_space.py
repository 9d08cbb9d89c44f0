"""Recognises a full disk in errors of the system and of programs, and raises DiskFull."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minova.errors import DiskFull

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
# The words of programs and libvirt for a full disk.
WORDS = ("No space left on device", "Disk quota exceeded")


@contextmanager
def disk_full(what: str) -> Iterator[None]:
    """Turns an OSError of a full disk inside the block into DiskFull. `what` says what could not be done."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise DiskFull(f"{what}: {error.strerror}") from error


def says_disk_full(text: str) -> bool:
    """Whether the error text of another program is about a full disk."""
    return any(words in text for words in WORDS)


def require_room(folder: Path, needed: int, reserve: int, what: str) -> None:
    """Raises DiskFull if `wanted` more bytes would leave less than `reserve` bytes of the file system free.

    Call it again while a file is written, since other processes write too.
    """
    free = shutil.disk_usage(folder).free
    if needed > free - reserve:
        raise DiskFull(
            f"{what}: {needed} more bytes > {max(0, free - reserve)} of {free} bytes free ({reserve} are reserved)"
        )
