"""Settings of the C library's allocator.

glibc makes up to eight arenas for each core, and a thread cannot use the freed memory of another arena. An idle minova-standalone with 2,000 servers grew with each audit, because audits
run in several threads. One arena costs no speed: Python's own lock lets only one thread at a time allocate.

Each thread also keeps freed memory for itself, up to 0.2 MB (tcache), and standalone has 140 threads: it grows for an hour until all of these are full. Only an environment variable that is set
before the process starts turns this off: the systemd units and container images set it.

Freed blocks between others that are in use stay, too, unless the library is asked to give their pages back: standalone grew by 0.3 MB with 100 creates and deletes.
"""

import ctypes

# From glibc's malloc.h. Other libraries have no mallopt or do not know these numbers: then nothing changes.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
KEPT_BYTES = 64 << 20
LARGEST_BYTES = 32 << 20
_keeps = False


def use_one_arena() -> bool:
    """Makes all threads of this process share one arena. Call it before any thread runs. Returns False if that is not possible."""
    return _set({M_ARENA_MAX: 1})


def keep_memory() -> bool:
    """Makes the C library return memory to the system only in portions of at least KEPT_BYTES: without this, a decision of the
    scheduler with 100,000 hosts has 3,000 page faults. Returns False if that is not possible.
    """
    global _keeps  # noqa: PLW0603  - as the library's own setting
    _keeps = True
    return _set({M_TRIM_THRESHOLD: KEPT_BYTES, M_MMAP_THRESHOLD: LARGEST_BYTES})


def return_freed_memory() -> None:
    """Gives pages without blocks in use back to the system, unless this process keeps memory."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None and not _keeps:
        trim(ctypes.c_size_t(0))


def _set(options: dict[int, int]) -> bool:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(option, value) for option, value in options.items())
