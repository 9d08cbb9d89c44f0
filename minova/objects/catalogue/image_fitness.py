"""Whether an image can be booted, and fits a flavor. Pure."""

import math

from oslo_utils import units

from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image

FORMATS = ("qcow2", "raw")
CONTAINERS = ("bare",)


def format_refused(disk_format: str | None, container_format: str | None = "bare") -> str | None:
    """Returns why images of this kind cannot be booted here, or None."""
    if disk_format not in FORMATS:
        return f"disk_format {disk_format or 'unset'!r} is not one that can be booted: {', '.join(FORMATS)}"
    if container_format not in CONTAINERS:
        return f"container_format {container_format or 'unset'!r} is not one that can be booted: {CONTAINERS[0]}"
    return None


def unfit(image: Image, flavor: Flavor, virtual_size: int | None = None) -> tuple[str, ...]:
    """Returns every reason why the flavor is too small for the image.

    `virtual_size` is in bytes; by default the one in the image's record. A flavor with root_gb 0 takes disks of any
    size.
    """
    size = image.virtual_size if virtual_size is None else virtual_size
    limit = math.inf if flavor.root_gb == 0 else flavor.root_gb
    reasons = []
    if size is not None and size > limit * units.Gi:
        reasons.append(f"virtual size {size} bytes > root disk {flavor.root_gb} GB ({flavor.root_gb * units.Gi} bytes)")
    if image.min_disk > limit:
        reasons.append(f"min_disk {image.min_disk} GB > root disk {flavor.root_gb} GB")
    if image.min_ram > flavor.memory_mb:
        reasons.append(f"min_ram {image.min_ram} MB > memory {flavor.memory_mb} MB")
    loaded = sum(each.size or 0 for each in image.boot_files)
    if loaded > flavor.memory_mb * units.Mi:
        reasons.append(f"kernel and ramdisk {loaded} bytes > memory {flavor.memory_mb} MB")
    return tuple(reasons)
