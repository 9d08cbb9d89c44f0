"""Tiny qcow2 files, made byte by byte, so that every field can be a lie."""

import struct
from pathlib import Path

CLUSTER_BITS = 16
CLUSTER = 1 << CLUSTER_BITS
HEADER = ">4sIQIIQIIQQIIQQQQII"


def write(path: Path, *, length: int | None = None, l2_entry: int = 4 * CLUSTER, **lies: int) -> Path:
    """Header, refcount table, one L1 table, one L2 table, one cluster of data; each is one cluster."""
    fields = {
        "magic": b"QFI\xfb",
        "version": 3,
        "backing_offset": 0,
        "backing_size": 0,
        "cluster_bits": CLUSTER_BITS,
        "size": 1 << 20,
        "crypt_method": 0,
        "l1_size": 1,
        "l1_offset": 2 * CLUSTER,
        "refcount_offset": CLUSTER,
        "refcount_clusters": 1,
        "snapshots": 0,
        "snapshots_offset": 0,
        "incompatible": 0,
        "compatible": 0,
        "autoclear": 0,
        "refcount_order": 4,
        "header_length": 104,
    } | lies
    file = bytearray(5 * CLUSTER)
    struct.pack_into(HEADER, file, 0, *fields.values())
    struct.pack_into(">Q", file, 2 * CLUSTER, 1 << 63 | 3 * CLUSTER)
    struct.pack_into(">Q", file, 3 * CLUSTER, 1 << 63 | l2_entry)
    path.write_bytes(bytes(file[:length]))
    return path
