"""Keeps freed memory for the next columns: with 100,000 hosts a decision otherwise has 3,000 page faults."""

import ctypes

# Of glibc's malloc.h. Other libraries have no mallopt, or know no such numbers: then nothing is kept.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 64 << 20
LARGEST_BYTES = 32 << 20


def keep_memory() -> bool:
    """Ask the C library to give back to the system no less than KEPT_BYTES at a time; False if it cannot be asked."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(M_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(M_MMAP_THRESHOLD, LARGEST_BYTES))
