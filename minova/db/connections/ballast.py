"""Space for a SQLite database whose file system is full: a file of real blocks beside it, which is given up for the next writes.

    ballast held --write fails: the disk is full--> ballast given up, the write is repeated: deletes, reports, heartbeats
         ^                                                    |
         '------- there is room again, looked for at -------- '   until then nothing new is made
                  each request for something new

Deletes need rows, too. Without this a full disk could not be emptied through the API.
"""

import logging
import os
import shutil
import threading
from pathlib import Path

from oslo_utils import units

LOG = logging.getLogger(__name__)
# Some 10,000 deletions, each of which writes a few pages, with the log of SQLite's checkpoints.
SIZE = 32 * units.Mi


class Ballast:
    """Thread-safe; several processes may share the file.

    `size`: bytes of the file.
    `margin`: bytes that stay free beside the file.
    """

    def __init__(self, database: Path, size: int = SIZE, margin: int = SIZE) -> None:
        self.path = database.with_name(f"{database.name}-ballast")
        self._size, self._margin = size, margin
        self._lock = threading.Lock()

    def hold(self) -> bool:
        """Makes the file if there is space for it. Returns whether the file exists."""
        with self._lock:
            if self._is_whole():
                return True
            try:
                if self._free() < self._size + self._margin:
                    return False
                self._allocate()
            except OSError as error:
                self.path.unlink(missing_ok=True)
                LOG.warning("%s cannot be made: %s", self.path, error.strerror)
                return False
            LOG.info("%d MB are kept in %s for a full disk", self._size // units.Mi, self.path)
            return True

    def give_up(self) -> bool:
        """Removes the file. Returns whether there was one."""
        with self._lock:
            try:
                self.path.unlink()
            except OSError:
                return False
        LOG.error(
            "The file system of %s is full. %d MB that were kept for this are given up, so that deletes and heartbeats "
            "go on; nothing new is made until there is room again",
            self.path.parent,
            self._size // units.Mi,
        )
        return True

    def _is_whole(self) -> bool:
        try:
            return self.path.stat().st_blocks * 512 >= self._size
        except OSError:
            return False

    def _free(self) -> int:
        return shutil.disk_usage(self.path.parent).free

    def _allocate(self) -> None:
        handle = os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(handle, 0, self._size)
        finally:
            os.close(handle)
