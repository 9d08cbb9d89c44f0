"""Direct kernel boot: QEMU loads a kernel and a ramdisk from images, in place of a boot loader on the root disk. Keys and defaults are
Nova's. Pure.
"""

from collections.abc import Mapping

from oslo_utils import units

from minova import errors
from minova.objects.catalogue.image import Image

KERNEL, RAMDISK, COMMAND_LINE = "kernel_id", "ramdisk_id", "os_command_line"
# The kernel of images that say so of themselves: their ramdisk is not used, either.
NO_KERNEL = "nokernel"
# Glance's formats of kernels and ramdisks, and bytes of no format.
FORMATS = ("aki", "ari", "raw")
# The consoles of Nova's command line.
_CONSOLES = "console=tty0 console=ttyS0 console=hvc0"
# Each server has a copy of both on its host, and a rescued one another. They count neither as disk of the flavor nor in any quota.
LARGEST = 512 * units.Mi
# A kernel on x86 takes so many characters.
_LONGEST = 2047


def references(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the images that are the kernel and the ramdisk, by the names of the properties; "" stands for none."""
    kernel = properties.get(KERNEL) or ""
    if kernel == NO_KERNEL:
        return {KERNEL: "", RAMDISK: ""}
    return {KERNEL: kernel, RAMDISK: properties.get(RAMDISK) or ""}


def columns_of(image: Image) -> dict[str, str]:
    """Returns the columns of a server with this image: listings filter and sort by them."""
    # The record of a guest may have any image.
    return {key: reference[:255] for key, reference in references(image.properties).items()}


def require_kernel(properties: Mapping[str, str]) -> None:
    """Raises BadRequest for a ramdisk or a command line without a kernel, and for a command line that no kernel takes."""
    image_ids = references(properties)
    if not image_ids[KERNEL]:
        alone = RAMDISK if image_ids[RAMDISK] else COMMAND_LINE if properties.get(COMMAND_LINE) else None
        if alone is not None:
            raise errors.BadRequest(f"Image property {alone}: it needs {KERNEL}.")
    line = properties.get(COMMAND_LINE) or ""
    if not line.isprintable() or len(line) > _LONGEST:
        raise errors.BadRequest(
            f"Image property {COMMAND_LINE}: it must be printable, of at most {_LONGEST} characters."
        )


def require_size(image: Image) -> None:
    """Raises BadRequest if the kernel and the ramdisk of the image are too large together."""
    size = sum(each.size or 0 for each in image.boot_files)
    if size > LARGEST:
        raise errors.BadRequest(f"Image {image.id}: its kernel and ramdisk have {size} bytes, more than {LARGEST}.")


def command_line(properties: Mapping[str, str], root_device: str) -> str:
    """Returns the image's own, or Nova's default."""
    return properties.get(COMMAND_LINE) or f"root={root_device} {_CONSOLES}"
