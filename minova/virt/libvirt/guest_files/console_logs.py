"""Keeps the console log of a guest small, although the guest may print without end.

Without virtlogd (`stdio_handler = "file"` in qemu.conf) QEMU appends to the file itself (O_APPEND). Such a file may be
emptied while QEMU has it open: QEMU's next write goes to the new end.
"""

import logging
import os
import stat
from contextlib import suppress
from pathlib import Path

LOG = logging.getLogger(__name__)
NAME = "console.log"
# virtlogd's name of the previous log.
PREVIOUS = f"{NAME}.0"
_CHUNK = 1 << 16


def bound(log: Path, limit: int) -> bool:
    """Empty the log if it has more than `limit` bytes, and keep its last `limit` bytes beside it, or a little more
    while it grows. Returns False if the log is small enough.

    If the disk is too full for the copy, the log is emptied without one. Output that the guest prints between the copy
    and the emptying, some microseconds, is lost. Raises FileNotFoundError or PermissionError if the log cannot be
    opened.
    """
    handle = os.open(log, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size <= limit:
            return False
        try:
            _keep_end(handle, log.with_name(PREVIOUS), status.st_size, limit)
        except OSError as error:
            LOG.warning("The end of %s cannot be kept: %s", log, error)
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)
    return True


def _keep_end(handle: int, kept: Path, size: int, limit: int) -> None:
    part = kept.with_name(f"{kept.name}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
            at = size - limit
            # Output that came during the copy is copied too, up to `limit` more bytes, so that a fast guest does not
            # prolong the copy without end.
            while at < size + limit and (data := os.pread(handle, _CHUNK, at)):
                file.write(data)
                at += len(data)
        part.rename(kept)
    finally:
        with suppress(OSError):
            part.unlink()
