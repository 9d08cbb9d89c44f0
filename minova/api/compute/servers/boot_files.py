"""The kernel and the ramdisk from which an image wants to be booted (`kernel_id`, `ramdisk_id`), as its user may see them."""

import uuid

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.http.call import Call
from minova.objects.catalogue.image import BootFile, Image
from minova.objects.catalogue.kernel_boot import FORMATS, KERNEL, RAMDISK, references, require_kernel, require_size


def with_boot_files(api: ComputeApiCollaborators, call: Call, session: Session, image: Image) -> Image:
    """Returns the image with the records of its kernel and ramdisk. Raises BadRequest if they cannot be used."""
    require_kernel(image.properties)
    image_ids = references(image.properties)
    boot_files = {key: boot_file(api, call, session, reference) for key, reference in image_ids.items()}
    booted = msgspec.structs.replace(image, kernel=boot_files[KERNEL], ramdisk=boot_files[RAMDISK])
    require_size(booted)
    return booted


def boot_file(api: ComputeApiCollaborators, call: Call, session: Session, reference: str | None) -> BootFile | None:
    """Returns the image, which QEMU loads as it is; None without a reference. Raises BadRequest."""
    if not reference:
        return None
    try:
        image_id = str(uuid.UUID(reference))
    except ValueError:
        image_id = ""
    image = api.images.visible(session, image_id, call) if image_id else None
    if image is None:
        raise errors.BadRequest(f"Can not find requested image: {reference[:255]}.")
    if image.status != "active" or image.size is None:
        raise errors.BadRequest(f"Image {image.id} is not active: its status is {image.status}.")
    if image.disk_format not in FORMATS:
        raise errors.BadRequest(
            f"Image {image.id}: disk_format {image.disk_format!r} is not one of a kernel or ramdisk: {', '.join(FORMATS)}"
        )
    return BootFile(id=image.id, size=image.size, os_hash_algo=image.os_hash_algo, os_hash_value=image.os_hash_value)
