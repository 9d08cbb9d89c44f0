"""Reads facts from a disk's file, by the format that minova recorded for it.

A guest writes every byte of a raw disk, so its first bytes prove nothing: a raw disk is never parsed, whatever it
begins with (CVE-2015-7548). Only QEMU writes the header of a qcow2 disk. The header is read within QEMU's own limits.
"""

import os
import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

from oslo_utils import units

from minova.errors import UnknownDiskFormat

QCOW2, RAW = "qcow2", "raw"
# The formats in which minova makes the files of an instance's disks; settings may choose another format for root disks.
FORMATS = {"disk": QCOW2, "disk.eph0": RAW, "disk.swap": RAW, "disk.config": RAW, "disk.rescue": QCOW2}

_MAGIC = b"QFI\xfb"
_VERSIONS = {2, 3}
# Magic, version, offset and length of the backing file's name, bits of a cluster, virtual size.
_HEADER = struct.Struct(">4sIQIIQ")
# Version, kind of encryption, incompatible features; and the only one of these that QEMU sets by itself.
_FEATURES = struct.Struct(">4xI24xI36xQ")
_DIRTY = 1
_NONE, _LUKS = 0, 2
# Magic, number of entries of the L1 table, its offset; and the longest table of QEMU, in bytes.
_L1 = struct.Struct(">4s32xIQ")
_L1_LIMIT = 32 << 20
# Limits of QEMU's docs/interop/qcow2: the name of the backing file is in the first cluster.
_LONGEST_NAME = 1023
_CLUSTER_BITS = range(9, 22)
# The size of the largest file that Linux can have.
_LARGEST = (1 << 63) - 1


def format_of(name: str, images_type: str) -> str:
    """Returns the format of a new file. `images_type` is the format of root disks."""
    return images_type if name == "disk" else FORMATS.get(name, RAW)


def longest_file(virtual_size: int) -> int:
    """Returns the most bytes of a qcow2 file: the disk and what describes it."""
    return virtual_size + virtual_size // 8 + 64 * units.Mi


def growth(path: Path, written_format: str | None) -> int:
    """Returns the bytes by which a thin disk may still grow; 0 for one that was removed meanwhile. If `written_format`
    is None, no format is recorded, and the file is not opened.
    """
    try:
        status = path.stat()
        header = _read_header(path) if written_format == QCOW2 else None
    except OSError:
        return 0
    size = status.st_size if header is None else min(header.virtual_size, _LARGEST)
    return max(0, size - status.st_blocks * 512)


def virtual_size(path: Path, written_format: str) -> int:
    """Returns the size in bytes that the guest sees. Raises UnknownDiskFormat for a broken header, OSError."""
    if written_format != QCOW2:
        return path.stat().st_size
    header = _read_header(path)
    if header is None:
        raise UnknownDiskFormat(f"{path} has no header of a qcow2 disk")
    return header.virtual_size


def backing_file(path: Path, written_format: str) -> str | None:
    """Returns the backing file of a qcow2 disk; None for a raw disk, a broken header, or a file that was removed
    meanwhile.
    """
    if written_format != QCOW2:
        return None
    try:
        header = _read_header(path)
    except FileNotFoundError:
        return None
    return header.backing_file if header is not None else None


def holds_data(path: Path) -> bool:
    """Whether a qcow2 disk has any cluster of its own, so that it differs from its backing file. True if the header
    cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(_L1.size)
        if len(head) < _L1.size:
            return True
        magic, entries, offset = _L1.unpack(head)
        if magic != _MAGIC or entries * 8 > _L1_LIMIT:
            return True
        return any(_read_at(file, offset, entries * 8))


def is_encrypted(path: Path) -> bool:
    """Whether a qcow2 disk is encrypted as LUKS. Raises FileNotFoundError."""
    with path.open("rb") as file:
        head = file.read(_FEATURES.size)
    return len(head) == _FEATURES.size and head.startswith(_MAGIC) and _FEATURES.unpack(head)[1] == _LUKS


def require_own_kind(path: Path, *, encrypted: bool = False) -> None:
    """Raises UnknownDiskFormat unless the qcow2 disk has only features with which minova makes disks: a disk from another
    host must not name files of this one (an external data file). `encrypted`: whether minova has encrypted this disk. The name of
    its backing file proves nothing.
    """
    with path.open("rb") as file:
        head = file.read(_FEATURES.size)
    if len(head) < _FEATURES.size or _read_header(path) is None:
        raise UnknownDiskFormat(f"{path} has no header of a qcow2 disk")
    version, encryption, incompatible = _FEATURES.unpack(head)
    if encryption != (_LUKS if encrypted else _NONE) or (version > 2 and incompatible & ~_DIRTY):
        raise UnknownDiskFormat(f"{path} has features of qcow2 with which minova makes no disks")


class _Header(NamedTuple):
    virtual_size: int
    backing_file: str | None


def _read_header(path: Path) -> _Header | None:
    """Returns the header, or None if it is not valid; QEMU would not open such a file either."""
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
        if len(head) < _HEADER.size:
            return None
        magic, version, offset, length, cluster_bits, size = _HEADER.unpack(head)
        if magic != _MAGIC or version not in _VERSIONS or cluster_bits not in _CLUSTER_BITS:
            return None
        if not offset:
            return _Header(size, None)
        if length > _LONGEST_NAME or offset + length > 1 << cluster_bits:
            return None
        return _Header(size, os.fsdecode(_read_at(file, offset, length)) or None)


def _read_at(file: BinaryIO, offset: int, length: int) -> bytes:
    file.seek(offset)
    return file.read(length)
