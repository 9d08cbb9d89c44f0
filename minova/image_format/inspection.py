"""Inspects the content of an image file, whatever its declared format, before anything runs from it.

Needs no hypervisor: the API inspects uploads with it, the computes inspect downloads and their cached files.
"""

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from minova.errors import ImageUnacceptable
from minova.objects.catalogue.image_fitness import format_refused

if TYPE_CHECKING:
    from oslo_utils.imageutils.format_inspector import FileInspector

# The version of the inspection rules. Increase it with every change of what is refused: files inspected by older rules
# are then inspected again.
RULES = 1

# Every format that could deceive QEMU is recognisable within these bytes; the last is ISO 9660 at 32 kB.
_HEAD = 1 << 20
_CHUNK = 1 << 16
# Many raw disks begin with a partition table; QEMU does not interpret it.
_RAW = {"raw", "gpt"}
_NAMES = {"raw": "raw or of no known format"}
# First bytes by which QEMU, if it had to probe the format, would take a file for another format than raw, and which the
# library does not know.
_MAGICS = {
    b"COWD": "vmdk",
    b"WithoutFreeSpace": "parallels",
    b"WithouFreSpacExt": "parallels",
    b"Bochs Virtual HD Image": "bochs",
    b"#!/bin/sh\n#V2.0 Format\nmodprobe cloop": "cloop",
}
# A VMDK that consists of text only and names files as its extents: comments, empty lines, and then its version.
_VMDK_TEXT = re.compile(rb"(?:#[^\n]{0,4096}\n|[ ]{0,4096}\r?\n){0,256}version=[0-9]")


class ImageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an inspection. `virtual_size` is the size that a guest sees, in bytes."""

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
        head = file.read(_HEAD)
        inspector = _detect(head)
        actual = _other_format(head) or "raw" if inspector.NAME in _RAW else inspector.NAME
        if actual != declared:
            raise ImageUnacceptable(f"declared as {declared}, but the file is {_NAMES.get(actual, actual)}")
        if actual == "raw":
            return ImageFacts(disk_format=actual, virtual_size=size)
        _refuse_unsafe(inspector)
        # Imported late: NumPy takes time and memory, and a compute needs it for nothing else.
        from minova.image_format import qcow2_tables  # noqa: PLC0415

        return ImageFacts(disk_format=actual, virtual_size=qcow2_tables.virtual_size(file, size))


def _other_format(head: bytes) -> str | None:
    if _VMDK_TEXT.match(head):
        return "vmdk"
    return next((name for magic, name in _MAGICS.items() if head.startswith(magic)), None)


def _detect(head: bytes) -> "FileInspector":
    """Returns the one format that the first bytes of the file show."""
    # Imported with the first image, since the import takes a fifth of a second: a third of the start of a compute.
    from oslo_utils.imageutils import format_inspector  # noqa: PLC0415

    wrapper = format_inspector.InspectWrapper(io.BytesIO(head))
    while wrapper.read(_CHUNK):
        pass
    wrapper.close()
    try:
        detected = wrapper.format
    except format_inspector.ImageFormatError as error:
        raise ImageUnacceptable(f"the file may be read as more than one format: {error}") from error
    if detected is None:
        raise ImageUnacceptable("the file's format is unknown")
    return detected


def _refuse_unsafe(inspector: "FileInspector") -> None:
    from oslo_utils.imageutils import format_inspector  # noqa: PLC0415 - as in _detect

    try:
        inspector.safety_check()
    except format_inspector.SafetyCheckFailed as error:
        raise ImageUnacceptable(", ".join(f"{name}: {why}" for name, why in error.failures.items())) from error
    except format_inspector.ImageFormatError as error:
        raise ImageUnacceptable(f"corrupt header: {error}") from error
