"""The image with which a server is rescued."""

from sqlalchemy.orm import Session

from minova.conductor.actions.engine.payload import decoded
from minova.db.servers import tasks
from minova.objects.actions.rescue import RESCUE


def rescue_image(session: Session, instance_uuid: str, host: str) -> str | None:
    """Returns the id of the image with which this host rescues the instance now, if the request named one."""
    payload = tasks.payload_on(session, instance_uuid, host, RESCUE.kind)
    return None if payload is None else decoded(payload).arguments.image_id
