"""Images that servers have made of themselves: the image of a shelved server, and how such images are removed."""

import logging
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from minova.db import quotas
from minova.db.catalogue import images
from minova.db.servers import instances
from minova.db.servers.instances import LockedInstance
from minova.objects.servers.states import VmState

LOG = logging.getLogger(__name__)
_NOT_SHELVED = {"shelved_image_id": None, "shelved_at": None, "shelved_since": None}
_UNFINISHED = frozenset({"queued", "saving"})
_KEEP_SHELVED_IMAGE = frozenset({VmState.SHELVED, VmState.SHELVED_OFFLOADED, VmState.SOFT_DELETED})


def remove_image(session: Session, image_id: str, *, only_unfinished: bool = False) -> None:
    """Remove the image, unless its owner has removed or protected it. `only_unfinished`: nor if all its bytes have
    arrived.
    """
    image = images.locked(session, image_id)
    if image is None or (only_unfinished and image.status not in _UNFINISHED):
        return
    if image.protected:
        LOG.info("Image %s is protected: it stays, although its server does not need it any more", image_id)
        return
    if images.remove(session, image_id):
        quotas.give(session, image.owner or "", quotas.of_image(image))


def columns_without_shelved_image(session: Session, instance: LockedInstance, after: VmState) -> dict[str, Any]:
    """Removes the image of the shelving of a locked instance if it does not need the image in its new state. Returns the
    columns that change.
    """
    if instance.shelved_image_id is None or after in _KEEP_SHELVED_IMAGE:
        return {}
    remove_image(session, instance.shelved_image_id)
    return dict(_NOT_SHELVED)


def has_shelved_image(session: Session, instance: LockedInstance) -> bool:
    """Returns whether the image of a shelved server has its disk. If it has not, the disk on the host is the only
    one.
    """
    image = images.find(session, instance.shelved_image_id) if instance.shelved_image_id is not None else None
    return image is not None and image.status == "active"


def forget_shelved_image(session: Session, instance_uuid: str, image_id: str, at: datetime) -> None:
    """The locked instance has its own disks again: remove the image of its shelving."""
    instances.set_attributes(session, instance_uuid, at, _NOT_SHELVED)
    remove_image(session, image_id)
