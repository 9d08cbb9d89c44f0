"""The kernel and ramdisk that QEMU loads for a guest, as files beside its disks: INSTANCES/UUID/kernel, ramdisk; kernel.rescue,
ramdisk.rescue while rescued.

They are copies, since libvirt gives them to QEMU's user, and the image cache forgets images on which no disk is based.
"""

import re
from collections.abc import Callable
from pathlib import Path

from minova.errors import ImageUnacceptable
from minova.objects.catalogue.image import BootFile, Image
from minova.virt.libvirt.storage.disk_images import NewFile, copy, new_file
from minova.virt.libvirt.xml.system_xml import BootFiles

KERNEL, RAMDISK = NAMES = "kernel", "ramdisk"
_RESCUE = ".rescue"
_DIGEST = re.compile(r"[0-9a-f]{64,128}")


def make(
    folder: Path,
    image: Image,
    image_path: Path,
    grant_access: Callable[[Path], None],
    require_room: Callable[[int], None],
    new: NewFile = new_file,
    *,
    rescue: bool = False,
) -> None:
    """Make the files that the image has. `image_path`: the image in the cache of this host, which has
    the others beside it, by their digests. `grant_access` gives QEMU access. `require_room` raises DiskFull unless so many bytes fit.
    """
    for path, boot_file in zip(_paths(folder, rescue), (image.kernel, image.ramdisk), strict=True):
        if boot_file is None:
            continue
        source = _source(boot_file, image_path)
        with new(path) as part:
            require_room(source.stat().st_size)
            copy(source, part)
            grant_access(part)


def remove_others(folder: Path, image: Image, *, rescue: bool = False) -> None:
    """Remove the files that the image has not. Idempotent."""
    for path, boot_file in zip(_paths(folder, rescue), (image.kernel, image.ramdisk), strict=True):
        if boot_file is None:
            path.unlink(missing_ok=True)


def size(image: Image, image_path: Path) -> int:
    """Returns the bytes that `make` copies."""
    return sum(_source(each, image_path).stat().st_size for each in image.boot_files)


def _source(boot_file: BootFile, image_path: Path) -> Path:
    digest = boot_file.os_hash_value or ""
    source = image_path.with_name(digest)
    if not _DIGEST.fullmatch(digest) or not source.is_file():
        raise ImageUnacceptable(f"Image {boot_file.id} is not in the cache of this host")
    return source


def remove(folder: Path, *, rescue: bool) -> None:
    for path in _paths(folder, rescue):
        path.unlink(missing_ok=True)


def of(folder: Path, image: Image | None, *, rescue: bool) -> BootFiles | None:
    """Returns the files of the guest; None if it boots from a disk. A rescued guest has those that were made for its rescue."""
    kernel, ramdisk = _paths(folder, rescue)
    if rescue:
        return BootFiles(kernel, ramdisk if ramdisk.exists() else None) if kernel.exists() else None
    if image is None or image.kernel is None:
        return None
    return BootFiles(kernel, ramdisk if image.ramdisk is not None else None)


def by_digest(folder: Path, image: Image | None) -> dict[str, Path]:
    """Returns {digest: file} of those that the image has."""
    if image is None:
        return {}
    images = zip(_paths(folder, rescue=False), (image.kernel, image.ramdisk), strict=True)
    return {each.os_hash_value: path for path, each in images if each is not None and each.os_hash_value}


def _paths(folder: Path, rescue: bool) -> tuple[Path, Path]:
    end = _RESCUE if rescue else ""
    return folder / f"{KERNEL}{end}", folder / f"{RAMDISK}{end}"
