"""Actions that make an image of a server.

The record of the image is written with the task, and removed if the action fails. The record of an image whose bytes
have all arrived stays, because the image is what the user requested.
"""

from typing import Any

from sqlalchemy.orm import Session

from minova.conductor.actions.engine.in_progress import LockedAction
from minova.conductor.actions.engine.kind import ActionKind, ActionRequest
from minova.conductor.actions.engine.payload import ActionPayload, decoded, payload_of
from minova.conductor.catalogue.images import Images
from minova.conductor.servers.server_images import remove_image
from minova.db.catalogue import images
from minova.db.models import Task
from minova.db.servers import tasks
from minova.db.servers.instances import LockedInstance
from minova.objects.actions.images import CREATE_BACKUP, CREATE_IMAGE
from minova.objects.actions.table import MAKE_IMAGES
from minova.objects.servers.states import TaskState, VmState


class MakesImage(ActionKind):
    """`keeps_complete`: whether an image whose bytes have all arrived stays although the action failed."""

    takes_quota = True
    keeps_complete = True

    def __init__(self, images: Images) -> None:
        self._images = images

    def prepare(self, session: Session, instance: LockedInstance, request: ActionRequest) -> ActionPayload:
        image = request.arguments.image
        assert image is not None
        self._images.add(session, image)
        return ActionPayload(arguments=request.arguments)

    def undo(self, session: Session, task: Task, task_state: TaskState | None, *, kept_disks: bool = False) -> None:
        """An upload in progress then fails."""
        image = payload_of(task).arguments.image
        if image is not None:
            remove_image(session, image.id, only_unfinished=self.keeps_complete)


class Backup(MakesImage):
    def succeeded(self, session: Session, locked: LockedAction, after: VmState) -> dict[str, Any]:
        """Keeps the newest backups of its server, owner and type, as many as the request says, and removes the others.
        Protected ones stay, too.

        Users may write any property into their images. So the server comes from the task, and only images of the new
        backup's owner are removed.
        """
        image, rotation = locked.payload.arguments.image, locked.payload.arguments.rotation
        if image is None or rotation is None:
            return {}
        alike = {key: image.properties.get(key, "") for key in ("image_type", "backup_type")}
        backups = images.of_owner(session, image.owner, {**alike, "instance_uuid": locked.instance.uuid})
        # The new one first, whatever the clocks of the conductors say that have made the records.
        newest_first = sorted(
            backups, key=lambda backup: (backup.id == image.id, str(backup.created_at), backup.id), reverse=True
        )
        for backup in newest_first[rotation:]:
            remove_image(session, backup.id)
        return {}


def kinds(images: Images) -> dict[str, ActionKind]:
    return {CREATE_IMAGE.kind: MakesImage(images), CREATE_BACKUP.kind: Backup(images)}


def image_made(session: Session, instance_uuid: str, host: str) -> str | None:
    """Returns the id of the image that this host is making from the instance."""
    for action in MAKE_IMAGES:
        payload = tasks.payload_on(session, instance_uuid, host, action.kind)
        if payload is not None:
            return decoded(payload).arguments.image_id
    return None
