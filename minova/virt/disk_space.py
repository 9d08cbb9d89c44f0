"""A full disk by its own name, wherever it shows itself."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minova.errors import DiskFull

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
# How programs and libvirt put it.
WORDS = ("No space left on device", "Disk quota exceeded")


@contextmanager
def disk_full(what: str) -> Iterator[None]:
    """An OSError of a full disk inside becomes DiskFull, which says `what` could not be done."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise DiskFull(f"{what}: {error.strerror}") from error


def says_disk_full(text: str) -> bool:
    """Whether another program's complaint is about a full disk."""
    return any(words in text for words in WORDS)


def require_room(folder: Path, wanted: int, reserve: int, what: str) -> None:
    """DiskFull: `wanted` more bytes would leave less than `reserve` bytes of the file system free.

    Asked again while a file is written: others write, too.
    """
    free = shutil.disk_usage(folder).free
    if wanted > free - reserve:
        raise DiskFull(
            f"{what}: {wanted} more bytes > {max(0, free - reserve)} of {free} bytes free ({reserve} are reserved)"
        )
