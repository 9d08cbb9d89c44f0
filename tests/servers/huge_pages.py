"""Pages of 2 MiB of this machine, for as long as a test wants them."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.private_server import ServerError

TOTAL = Path("/proc/sys/vm/nr_hugepages")
COMPACT = Path("/proc/sys/vm/compact_memory")


@contextmanager
def huge_pages(count: int) -> Iterator[None]:
    """`count` more of them than there are. ServerError: the kernel has none, or not so much memory in one piece."""
    before = _change(count)
    try:
        if _total() < before + count:
            # Free memory in small pieces: move what is in use together, and ask again.
            COMPACT.write_text("1")
            _change(before + count - _total())
        if _total() < before + count:
            raise ServerError(f"{TOTAL}: the kernel gave {_total() - before} of {count} pages of 2 MiB")
        yield
    finally:
        _change(-count)


@contextmanager
def exclusive() -> Iterator[None]:
    """For the start of a guest, which needs all of them: waits for what uses them by `shared`, and keeps it away."""
    with TOTAL.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def shared() -> Iterator[None]:
    """For a program that takes some for a moment if there are any: initdb of PostgreSQL does so."""
    with TOTAL.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


def _change(count: int) -> int:
    """How many there were. Other test runs of this machine change the same number."""
    try:
        with TOTAL.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            before = int(file.read())
            file.seek(0)
            file.write(str(max(0, before + count)))
            return before
    except OSError as error:
        raise ServerError(f"{TOTAL} cannot be set, so there are no pages of 2 MiB to test with: {error}") from error


def _total() -> int:
    return int(TOTAL.read_text())
