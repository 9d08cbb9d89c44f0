"""Images in server actions: which image a host may use or make, and what happens to an unfinished image.

An action that makes an image writes its record in its own transaction, and removes it at its end if the action has
failed. The record of an image whose bytes have all arrived stays, because the image is what the user requested.
"""

import logging
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy.orm import Session

from minova.codecs import Decoder
from minova.db import quotas
from minova.db.catalogue import images
from minova.db.models import Task
from minova.db.servers import instances, tasks
from minova.db.servers.instances import LockedInstance
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.actions.rescue import RESCUE
from minova.objects.actions.shelving import SHELVE
from minova.objects.actions.table import BY_KIND, MAKE_IMAGES
from minova.objects.catalogue.image import Image
from minova.objects.servers.states import VmState

LOG = logging.getLogger(__name__)


class WaitingDetachment(msgspec.Struct, frozen=True, kw_only=True):
    """A detachment that was accepted during another attachment or detachment of its server. It follows that action."""

    port_id: str
    action_id: int


class ActionPayload(msgspec.Struct, frozen=True, kw_only=True):
    """An action task's payload: how often the host was asked, whether the action has begun, and what it gets beside the
    instance.

    `waits`: the kind of failure of its host for which the action waits, as its record says; empty: it does not wait.
    `before`: columns of the instance that are restored if nothing happens to its guest.
    `carried`: records of other actions that end with the same result as this one.
    `waiting`: detachments that follow this action, whatever its result.
    """

    asks: int = 1
    begun: bool = False
    waits: str = ""
    arguments: HostArguments = HostArguments()
    before: dict[str, Any] = {}
    carried: tuple[int, ...] = ()
    waiting: tuple[WaitingDetachment, ...] = ()


PAYLOAD = Decoder(ActionPayload)
_UNFINISHED = frozenset({"queued", "saving"})
_KEEP_SHELVED_IMAGE = frozenset({VmState.SHELVED, VmState.SHELVED_OFFLOADED, VmState.SOFT_DELETED})


def records_of(task: Task, *, waiting: bool = True) -> list[int]:
    """Returns the ids of the actions that end with the task. `waiting`: including those that would follow it."""
    if task.action_id is None:
        return []
    if task.kind not in BY_KIND:
        return [task.action_id]
    payload = PAYLOAD.from_builtins(task.payload)
    return [task.action_id, *payload.carried, *(one.action_id for one in payload.waiting if waiting)]


def image_of(task: Task) -> Image | None:
    """Returns the image that the task is to make, as it was when the task began."""
    action = BY_KIND.get(task.kind)
    if action is None or not action.makes_image:
        return None
    return PAYLOAD.from_builtins(task.payload).arguments.image


def discard_image(session: Session, task: Task) -> None:
    """The task ends without having made its image: remove the image's record, unless all bytes have arrived. An upload
    in progress then fails.
    """
    image = image_of(task)
    if image is not None:
        # Without its shelved server even a complete image is useless.
        remove_image(session, image.id, only_unfinished=task.kind != SHELVE.kind)


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


def shelved_columns(
    session: Session, task: Task, instance: LockedInstance, after: VmState, at: datetime
) -> dict[str, Any]:
    """Returns the columns of a locked instance that the success of this action changes. An image that the server no
    longer needs is removed.
    """
    values: dict[str, Any] = {}
    made = image_of(task) if task.kind == SHELVE.kind else None
    if made is not None:
        values = {"shelved_image_id": made.id, "shelved_at": at}
    elif after is VmState.SHELVED_OFFLOADED:
        return {"host": None, "node": None}
    elif instance.shelved_image_id is not None and after not in _KEEP_SHELVED_IMAGE:
        values = {"shelved_image_id": None, "shelved_at": None}
    if values and instance.shelved_image_id is not None:
        remove_image(session, instance.shelved_image_id)
    return values


def has_shelved_image(session: Session, instance: LockedInstance) -> bool:
    """Returns whether the image of a shelved server has its disk. If it has not, the disk on the host is the only
    one.
    """
    image = images.find(session, instance.shelved_image_id) if instance.shelved_image_id is not None else None
    return image is not None and image.status == "active"


def forget_shelved_image(session: Session, instance_uuid: str, image_id: str, at: datetime) -> None:
    """The locked instance has its own disks again: remove the image of its shelving."""
    instances.set_attributes(session, instance_uuid, at, {"shelved_image_id": None, "shelved_at": None})
    remove_image(session, image_id)


def rotate_backups(session: Session, task: Task) -> None:
    """The new backup is made: keep the newest backups of its server, owner and type, as many as the request said, and
    remove the others. Protected ones stay, too.

    Users may write any property into their images. So the server comes from the task, and only images of the new
    backup's owner are removed.
    """
    image = image_of(task)
    rotation = PAYLOAD.from_builtins(task.payload).arguments.rotation
    if image is None or rotation is None:
        return
    alike = {key: image.properties.get(key, "") for key in ("image_type", "backup_type")}
    known = images.of_owner(session, image.owner, {**alike, "instance_uuid": task.instance_uuid})
    newest_first = sorted(known, key=lambda backup: (str(backup.created_at), backup.id), reverse=True)
    for backup in newest_first[rotation:]:
        remove_image(session, backup.id)


def rescue_image(session: Session, instance_uuid: str, host: str) -> str | None:
    """Returns the id of the image with which this host rescues the instance now, if the request named one."""
    payload = tasks.payload_on(session, instance_uuid, host, RESCUE.kind)
    return None if payload is None else PAYLOAD.from_builtins(payload).arguments.image_id


def image_made(session: Session, instance_uuid: str, host: str) -> str | None:
    """Returns the id of the image that this host is making from the instance."""
    for action in MAKE_IMAGES:
        payload = tasks.payload_on(session, instance_uuid, host, action.kind)
        if payload is not None:
            return PAYLOAD.from_builtins(payload).arguments.image_id
    return None
