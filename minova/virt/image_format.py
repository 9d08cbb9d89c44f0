"""What is in an image file, whatever it is called: looked at before anything runs from it.

Needs no hypervisor: the API looks at uploads with it, the computes at downloads and at what their cache holds.
"""

import io
import math
import struct
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from oslo_utils.imageutils import format_inspector

from minova.errors import ImageUnacceptable
from minova.objects.flavor import Flavor
from minova.objects.image import Image

FORMATS = ("qcow2", "raw")
CONTAINERS = ("bare",)
GB = 1 << 30

# Every format that could deceive QEMU shows itself in here; the last is ISO 9660 at 32 kB.
_HEAD = 1 << 20
_CHUNK = 1 << 16
# A partition table is what many raw disks begin with; QEMU reads no meaning into it.
_RAW = {"raw", "gpt"}
_NAMES = {"raw": "raw or of no known format"}
# The bit that QEMU sets on a qcow2 file whose metadata it found damaged.
_QCOW2_CORRUPT = 2
# Largest table of tables that QEMU reads, bytes.
_L1_LIMIT = 32 << 20
# Bytes: beyond this file systems refuse to seek.
_LONGEST = 1 << 42
_OFFSET = 0x00FF_FFFF_FFFF_FE00
_COMPRESSED = 1 << 62
_TRUNCATED = "corrupt or truncated: its tables point beyond the end of the file"


class ImageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`virtual_size` is what a guest sees, in bytes."""

    disk_format: str
    virtual_size: int


def inspect(path: Path, declared: str | None) -> ImageFacts:
    """Checks that the file is of the declared format, complete and safe. Raises ImageUnacceptable with the reason."""
    refused = format_refused(declared)
    if refused:
        raise ImageUnacceptable(refused)
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        if size == 0:
            raise ImageUnacceptable("the image file is empty")
        inspector = _detect(file)
        found = "raw" if inspector.NAME in _RAW else inspector.NAME
        if found != declared:
            raise ImageUnacceptable(f"declared as {declared}, but the file is {_NAMES.get(found, found)}")
        if found == "raw":
            return ImageFacts(disk_format=found, virtual_size=size)
        _refuse_unsafe(inspector)
        return ImageFacts(disk_format=found, virtual_size=_qcow2_size(file, size))


def format_refused(disk_format: str | None, container_format: str | None = "bare") -> str | None:
    """Why images of this kind cannot be booted here, if so."""
    if disk_format not in FORMATS:
        return f"disk_format {disk_format or 'unset'!r} is not one that can be booted: {', '.join(FORMATS)}"
    if container_format not in CONTAINERS:
        return f"container_format {container_format or 'unset'!r} is not one that can be booted: {CONTAINERS[0]}"
    return None


def unfit(image: Image, flavor: Flavor, virtual_size: int | None = None) -> tuple[str, ...]:
    """Every reason why the flavor is too small for the image. Pure.

    `virtual_size` in bytes: default the image's own record. A flavor with root_gb 0 takes disks of any size.
    """
    size = image.virtual_size if virtual_size is None else virtual_size
    limit = math.inf if flavor.root_gb == 0 else flavor.root_gb
    reasons = []
    if size is not None and size > limit * GB:
        reasons.append(f"virtual size {size} bytes > root disk {flavor.root_gb} GB ({flavor.root_gb * GB} bytes)")
    if image.min_disk > limit:
        reasons.append(f"min_disk {image.min_disk} GB > root disk {flavor.root_gb} GB")
    if image.min_ram > flavor.memory_mb:
        reasons.append(f"min_ram {image.min_ram} MB > memory {flavor.memory_mb} MB")
    return tuple(reasons)


def _detect(file: BinaryIO) -> format_inspector.FileInspector:
    """The one format that the head of the file shows."""
    wrapper = format_inspector.InspectWrapper(io.BytesIO(file.read(_HEAD)))
    while wrapper.read(_CHUNK):
        pass
    wrapper.close()
    try:
        found = wrapper.format
    except format_inspector.ImageFormatError as error:
        raise ImageUnacceptable(f"the file may be read as more than one format: {error}") from error
    if found is None:
        raise ImageUnacceptable("the file's format cannot be told")
    return found


def _refuse_unsafe(found: format_inspector.FileInspector) -> None:
    try:
        found.safety_check()
    except format_inspector.SafetyCheckFailed as error:
        raise ImageUnacceptable(", ".join(f"{name}: {why}" for name, why in error.failures.items())) from error
    except format_inspector.ImageFormatError as error:
        raise ImageUnacceptable(f"corrupt header: {error}") from error


class _Header(msgspec.Struct, frozen=True):
    """What of a qcow2 header matters here, in its order (QEMU's docs/interop/qcow2)."""

    cluster_bits: int
    size: int
    crypt_method: int
    l1_size: int
    l1_table_offset: int
    refcount_table_offset: int


def _qcow2_size(file: BinaryIO, file_size: int) -> int:
    """The virtual size, after a look at whether every cluster that the tables name lies in the file."""
    file.seek(0)
    head = file.read(104)
    header = _Header(*struct.unpack_from(">IQIIQQ", head, 20))
    if struct.unpack_from(">I", head, 4)[0] >= 3 and head[79] & _QCOW2_CORRUPT:
        raise ImageUnacceptable("the image is marked as corrupt")
    if header.crypt_method:
        raise ImageUnacceptable("the image is encrypted")
    if header.size == 0:
        raise ImageUnacceptable("corrupt header: the virtual size is 0")
    if not 9 <= header.cluster_bits <= 21:
        raise ImageUnacceptable(f"corrupt header: clusters of 2^{header.cluster_bits} bytes")
    cluster = 1 << header.cluster_bits
    tables_needed = -(-header.size // (cluster * (cluster // 8)))
    if header.l1_size * 8 > _L1_LIMIT or header.l1_size < tables_needed:
        raise ImageUnacceptable(f"corrupt header: {header.l1_size} tables for {header.size} bytes")
    if not cluster <= header.refcount_table_offset < file_size:
        raise ImageUnacceptable(_TRUNCATED)
    for table in sorted(set(_offsets(file, header.l1_table_offset, header.l1_size))):
        if table % cluster:
            raise ImageUnacceptable(f"corrupt: a table at {table} is not at the start of a cluster")
        if max(_offsets(file, table, cluster // 8), default=0) >= file_size:
            raise ImageUnacceptable(_TRUNCATED)
    return header.size


def _offsets(file: BinaryIO, at: int, count: int) -> Iterator[int]:
    """Where the entries of a table point; those that are empty or hold packed clusters are left out."""
    raw = b"" if at > _LONGEST or file.seek(at) != at else file.read(count * 8)
    if len(raw) < count * 8:
        raise ImageUnacceptable(_TRUNCATED)
    entries = array("Q", raw)
    if sys.byteorder == "little":
        entries.byteswap()
    return (entry & _OFFSET for entry in filter(None, entries) if not entry & _COMPRESSED and entry & _OFFSET)
