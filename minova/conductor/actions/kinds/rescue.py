"""The images with which a server is rescued."""

from sqlalchemy.orm import Session

from minova.conductor.actions.engine.payload import decoded
from minova.db.servers import tasks
from minova.objects.actions.rescue import RESCUE


def rescue_images(session: Session, instance_uuid: str, host: str) -> set[str]:
    """Returns the ids of the image with which this host rescues the instance now, and of its kernel and ramdisk, if the request or the
    configuration named them.
    """
    payload = tasks.payload_on(session, instance_uuid, host, RESCUE.kind)
    image = None if payload is None else decoded(payload).arguments.rescue_image
    return set() if image is None else {image.id, *(each.id for each in image.boot_files)}
