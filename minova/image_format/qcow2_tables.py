"""Checks that everything to which the header and tables of a qcow2 file point lies in the file.

Reading a hostile file must not take longer than its upload: every table is compared with the size of the file before it
is read, every byte is read at most once, and entries are tested as columns.
"""

import os
import struct
import sys
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from minova.errors import ImageUnacceptable

# The bit that QEMU sets on a file with damaged metadata. Features that would change the tables are refused before.
_CORRUPT = 1 << 1
# Limits of QEMU: bytes of the L1 table, number and bytes of snapshots, bytes of the header with its extensions.
_L1_LIMIT = 32 << 20
_MAX_SNAPSHOTS = 65536
_REFCOUNT_ORDER = 6
_SNAPSHOT_BYTES = 40
_OFFSET = 0x00FF_FFFF_FFFF_FE00
_COMPRESSED = 1 << 62
_HEADER_BYTES, _V2_HEADER_BYTES = 104, 72
# Bytes read at a time. Tables that lie closer together are read together with the bytes between them.
_WINDOW = 4 << 20
_TRUNCATED = "corrupt or truncated: its tables point beyond the end of the file"

Offsets = npt.NDArray[np.uint64]


class _Header(msgspec.Struct, frozen=True):
    """The header fields that matter here, in their order (QEMU's docs/interop/qcow2)."""

    cluster_bits: int
    size: int
    crypt_method: int
    l1_size: int
    l1_table_offset: int
    refcount_table_offset: int
    refcount_table_clusters: int
    nb_snapshots: int
    snapshots_offset: int


class _Layout(NamedTuple):
    cluster_bits: int
    file_size: int

    @property
    def cluster(self) -> int:
        return 1 << self.cluster_bits


def virtual_size(file: BinaryIO, file_size: int) -> int:
    """Returns the size that a guest sees, in bytes. Raises ImageUnacceptable if the file is damaged, incomplete, or of
    a kind that is not served.
    """
    head = os.pread(file.fileno(), _HEADER_BYTES, 0)
    if len(head) < _V2_HEADER_BYTES:
        raise ImageUnacceptable(_TRUNCATED)
    header = _Header(*struct.unpack_from(">IQIIQQIIQ", head, 20))
    if _features(head) & _CORRUPT:
        raise ImageUnacceptable("the image is marked as corrupt")
    if header.crypt_method:
        raise ImageUnacceptable("the image is encrypted")
    if header.size == 0:
        raise ImageUnacceptable("corrupt header: the virtual size is 0")
    if not 9 <= header.cluster_bits <= 21:
        raise ImageUnacceptable(f"corrupt header: clusters of 2^{header.cluster_bits} bytes")
    layout = _Layout(header.cluster_bits, file_size)
    _require_header_tables(header, layout)
    _require_data(file, header, layout)
    return header.size


def _features(head: bytes) -> int:
    """Returns the incompatible features; none for a version 2 file. Raises ImageUnacceptable if the header's own length
    is not valid.
    """
    if struct.unpack_from(">I", head, 4)[0] < 3:
        return 0
    if len(head) < _HEADER_BYTES:
        raise ImageUnacceptable(_TRUNCATED)
    bits, length = struct.unpack_from(">Q", head, 72)[0], struct.unpack_from(">I", head, 100)[0]
    if struct.unpack_from(">I", head, 96)[0] > _REFCOUNT_ORDER:
        raise ImageUnacceptable("corrupt header: reference counts of more than 64 bits")
    if length < _HEADER_BYTES or length > 1 << min(struct.unpack_from(">I", head, 20)[0], 21):
        raise ImageUnacceptable(f"corrupt header: a length of {length} bytes")
    return int(bits)


def _require_header_tables(header: _Header, layout: _Layout) -> None:
    """Raises ImageUnacceptable unless every table that the header names is complete. Runs before any table is read."""
    cluster = layout.cluster
    tables_needed = -(-header.size // (cluster * (cluster // 8)))
    if header.l1_size * 8 > _L1_LIMIT or header.l1_size < tables_needed:
        raise ImageUnacceptable(f"corrupt header: {header.l1_size} tables for {header.size} bytes")
    if header.nb_snapshots > _MAX_SNAPSHOTS:
        raise ImageUnacceptable(f"corrupt header: {header.nb_snapshots} snapshots")
    tables = {
        "L1": (header.l1_table_offset, header.l1_size * 8),
        "refcount": (header.refcount_table_offset, header.refcount_table_clusters * cluster),
        "snapshot": (header.snapshots_offset, header.nb_snapshots * _SNAPSHOT_BYTES),
    }
    for name, (offset, length) in tables.items():
        if name == "snapshot" and not length:
            continue
        if offset % cluster:
            raise ImageUnacceptable(f"corrupt header: the {name} table at {offset} is not at the start of a cluster")
        if not cluster <= offset < layout.file_size or offset + length > layout.file_size:
            raise ImageUnacceptable(_TRUNCATED)


def _require_data(file: BinaryIO, header: _Header, layout: _Layout) -> None:
    """Raises ImageUnacceptable unless every L2 table is complete and every cluster in its entries begins in the
    file.
    """
    cluster = layout.cluster
    words = _words(file, header.l1_table_offset, header.l1_size * 8)
    words &= np.uint64(_OFFSET)
    tables = np.unique(words[words != 0])
    odd = tables[tables % np.uint64(cluster) != 0]
    if odd.size:
        raise ImageUnacceptable(f"corrupt: a table at {odd[0]} is not at the start of a cluster")
    if tables.size and int(tables[-1]) + cluster > layout.file_size:
        raise ImageUnacceptable(_TRUNCATED)
    for some in _windows(tables):
        if _leads_outside(_entries(file, some, layout), layout):
            raise ImageUnacceptable(_TRUNCATED)


def _windows(tables: Offsets) -> Iterator[Offsets]:
    """Yields the sorted tables, grouped by windows."""
    at = 0
    while at < tables.size:
        end = int(np.searchsorted(tables, tables[at] + np.uint64(_WINDOW)))
        yield tables[at:end]
        at = end


def _entries(file: BinaryIO, tables: Offsets, layout: _Layout) -> Offsets:
    """Returns the entries of tables that lie close together, with one read."""
    first = int(tables[0])
    words = _words(file, first, int(tables[-1]) + layout.cluster - first)
    rows = words.reshape(-1, layout.cluster // 8)
    chosen: Offsets = rows[((tables - np.uint64(first)) >> np.uint64(layout.cluster_bits)).astype(np.intp)]
    return chosen


def _leads_outside(entries: Offsets, layout: _Layout) -> bool:
    """Whether any entry names a cluster that begins beyond the end of the file."""
    packed = (entries & np.uint64(_COMPRESSED)) != 0
    # A compressed cluster can begin at any byte; the higher bits of its entry are its length.
    packed_offset = np.uint64((1 << (62 - (layout.cluster_bits - 8))) - 1)
    offsets = np.where(packed, entries & packed_offset, entries & np.uint64(_OFFSET))
    return bool((offsets >= np.uint64(layout.file_size)).any())


def _words(file: BinaryIO, offset: int, length: int) -> Offsets:
    """Returns the words, read in place: a table may have 32 MB."""
    words = np.empty(length // 8, dtype=np.uint64)
    if os.preadv(file.fileno(), [words.data], offset) < length:
        raise ImageUnacceptable(_TRUNCATED)
    return words.byteswap(inplace=True) if sys.byteorder == "little" else words
