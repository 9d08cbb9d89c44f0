"""Keeps freed memory for the next columns. Without this, a decision with 100,000 hosts has 3,000 page faults."""

import ctypes

# From glibc's malloc.h. Other libraries have no mallopt or do not know these numbers: then nothing is kept.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 64 << 20
LARGEST_BYTES = 32 << 20


def keep_memory() -> bool:
    """Makes the C library return memory to the system only in portions of at least KEPT_BYTES. Returns False if that is
    not possible.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(M_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(M_MMAP_THRESHOLD, LARGEST_BYTES))
