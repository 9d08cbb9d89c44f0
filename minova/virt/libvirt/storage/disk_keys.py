"""How qemu-img makes and opens an encrypted disk: qcow2 with LUKS inside.

The passphrase is in a file without a name, which only the program inherits: no other process sees it among the arguments, and no
disk has it.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from minova.errors import HypervisorError

# Milliseconds of key derivation at each opening. More of them protect passphrases that can be guessed; these have 256 random bits.
_ITERATE_FOR = 10
# QEMU measures how fast it can try passphrases, and gives up if the kernel has not counted any of its CPU time yet.
_UNMEASURED, _TRIES = "Unable to get accurate CPU usage", 20


class DiskKey(NamedTuple):
    """`handle`: the open file with the passphrase; None: the disk is not encrypted."""

    handle: int | None = None

    @property
    def inherited(self) -> tuple[int, ...]:
        return () if self.handle is None else (self.handle,)

    @property
    def making(self) -> list[str]:
        """Arguments of `qemu-img create` and `convert` for the disk that they make."""
        if self.handle is None:
            return []
        return [*self._secret, "-o", f"encrypt.format=luks,encrypt.key-secret=key,encrypt.iter-time={_ITERATE_FOR}"]

    def opening(self, disk_format: str) -> list[str]:
        """Arguments for a disk that is there; its name follows as `name`."""
        return ["-f", disk_format] if self.handle is None else [*self._secret, "--image-opts"]

    @property
    def name(self) -> str:
        """How an existing disk is named, as a pattern for its file."""
        if self.handle is None:
            return "{}"
        return "driver=qcow2,file.driver=file,file.filename={},encrypt.key-secret=key"

    @property
    def _secret(self) -> list[str]:
        return ["--object", f"secret,id=key,file=/proc/self/fd/{self.handle}"]


PLAIN = DiskKey()


def mark_of(passphrase: str) -> str:
    """Returns what tells a passphrase from others, and nothing about it: it has 256 random bits."""
    return hashlib.sha256(passphrase.encode()).hexdigest()[:16]


@contextmanager
def opened(passphrase: str | None) -> Iterator[DiskKey]:
    if passphrase is None:
        yield PLAIN
        return
    handle = os.memfd_create("key")
    try:
        os.write(handle, passphrase.encode())
        yield DiskKey(handle)
    finally:
        os.close(handle)


def making(make: Callable[[], None]) -> None:
    """Runs a program that makes an encrypted disk, again if QEMU could not measure itself. Raises as `make`."""
    for _ in range(_TRIES - 1):
        try:
            return make()
        except HypervisorError as error:
            if _UNMEASURED not in str(error):
                raise
    return make()
