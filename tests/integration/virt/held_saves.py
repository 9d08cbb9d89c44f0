"""Holds the helper process through which libvirt writes the saved memory of guests, so that a save lasts as long as a test
wants, and the guest's QEMU and libvirt answer meanwhile.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import wait_for

POLL = 0.002


class HeldSaves:
    """Of one libvirtd. `begun` is set once a save is held."""

    def __init__(self, libvirtd: int) -> None:
        self._libvirtd = libvirtd
        self._over = threading.Event()
        self._held: set[int] = set()
        self._thread = threading.Thread(target=self._hold)

    def await_one(self) -> None:
        wait_for("libvirt's helper to begin", lambda: self._held, 60)

    def let_go(self) -> None:
        self._over.set()
        self._thread.join()
        for pid in self._held:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _hold(self) -> None:
        while not self._over.wait(POLL):
            for pid in set(_children(self._libvirtd)) - self._held:
                if b"libvirt_iohelper" in _read(Path(f"/proc/{pid}/cmdline")):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGSTOP)
                        self._held.add(pid)

    def start(self) -> "HeldSaves":
        self._thread.start()
        return self


@contextmanager
def held_saves(libvirtd: int) -> Iterator[HeldSaves]:
    held = HeldSaves(libvirtd).start()
    try:
        yield held
    finally:
        held.let_go()


def _children(pid: int) -> Iterator[int]:
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        yield from map(int, _read(thread).split())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
