"""Counters of failed logins in memory that several processes can share."""

import fcntl
import mmap
import os
import struct
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

KEY_BYTES = 16
_SECRET_BYTES = 32
_SLOT = struct.Struct(f"<{KEY_BYTES}sIdd")
# The key of an entry selects a bucket of this many slots. If all are taken, a new entry replaces the one whose last
# failure is the oldest.
_WAYS = 8
_FREE = bytes(KEY_BYTES)


class Failures(msgspec.Struct):
    """Times are of the monotonic clock, which is the same in all processes of a host."""

    count: int = 0
    last: float = 0.0
    blocked_until: float = 0.0


class FailureTable:
    """At most `entries` counters. Read and write only under `locked`.

    `file`: the descriptor of a table that another process has made.
    """

    def __init__(self, entries: int, file: int | None = None) -> None:
        self.file = os.memfd_create("minova-failed-logins") if file is None else file
        weakref.finalize(self, os.close, self.file)
        if file is None:
            buckets = max(entries // _WAYS, 1)
            os.ftruncate(self.file, _SECRET_BYTES + buckets * _WAYS * _SLOT.size)
            os.pwrite(self.file, os.urandom(_SECRET_BYTES), 0)
        self._memory = mmap.mmap(self.file, 0)
        self._buckets = (len(self._memory) - _SECRET_BYTES) // (_WAYS * _SLOT.size)
        self._lock = threading.Lock()
        self.secret = bytes(self._memory[:_SECRET_BYTES])

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Excludes all other threads and processes for the length of the block."""
        with self._lock:
            fcntl.lockf(self.file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self.file, fcntl.LOCK_UN)

    def get(self, key: bytes) -> Failures | None:
        for slot in self._slots(key):
            stored_key, count, last, blocked_until = _SLOT.unpack_from(self._memory, slot)
            if stored_key == key:
                return Failures(count, last, blocked_until)
        return None

    def put(self, key: bytes, failures: Failures) -> None:
        """Writes into the slot of the key, else into a free slot, else into the slot with the oldest failure."""
        rows = [(_SLOT.unpack_from(self._memory, slot), slot) for slot in self._slots(key)]
        _, slot = min(rows, key=lambda row: (row[0][0] != key, row[0][0] != _FREE, row[0][2]))
        _SLOT.pack_into(self._memory, slot, key, failures.count, failures.last, failures.blocked_until)

    def pop(self, key: bytes) -> None:
        for slot in self._slots(key):
            if self._memory[slot : slot + KEY_BYTES] == key:
                _SLOT.pack_into(self._memory, slot, _FREE, 0, 0.0, 0.0)

    def __len__(self) -> int:
        slots = range(_SECRET_BYTES, len(self._memory), _SLOT.size)
        return sum(self._memory[slot : slot + KEY_BYTES] != _FREE for slot in slots)

    def _slots(self, key: bytes) -> range:
        start = _SECRET_BYTES + int.from_bytes(key[:8]) % self._buckets * _WAYS * _SLOT.size
        return range(start, start + _WAYS * _SLOT.size, _SLOT.size)
