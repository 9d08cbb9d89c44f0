"""The record of an image that is made of a server: the properties that it inherits, and those that describe the server.
As in Nova.
"""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers.actions.completion import ActionStart, Complete
from minova.api.http import names
from minova.api.http.call import Call
from minova.db import quotas
from minova.db.api_queries.instances import InstanceRow
from minova.db.servers import instances
from minova.hardware.guest.secret_rules import require_image_allowed
from minova.objects.actions.action import Arguments
from minova.objects.actions.images import CREATE_BACKUP, CREATE_IMAGE, CreateBackupArguments, CreateImageArguments
from minova.objects.actions.rescue import BASE_IMAGE, FIRST_IMAGE, first_image_of
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.quota import UNLIMITED

SNAPSHOT = "snapshot"


def image_of(
    conf: cfg.ConfigOpts,
    call: Call,
    session: Session,
    row: InstanceRow,
    name: str,
    metadata: Mapping[str, str],
    **more: str,
) -> Image:
    """Returns the record of an image of the caller's project, without bytes.

    `metadata`: as in Nova, does not replace properties that describe the server, except `image_type`.
    `more`: further properties that describe the server.

    Raises Forbidden if there are too many metadata, BadRequest if the name is invalid, Conflict if the disks are encrypted.
    """
    limit = quotas.limits_of(session, conf, call.ctx.project_id)["metadata_items"]
    if UNLIMITED != limit < len(metadata):
        raise errors.Forbidden(f"Maximum number of metadata items exceeds {limit}.")
    instance = instances.by_uuids(session, [row.uuid], networks=False)[row.uuid]
    require_image_allowed(instance)
    base = instance.image
    own: dict[str, Any] = {"instance_uuid": row.uuid, "user_id": call.ctx.user_id}
    # As Nova's libvirt driver writes them.
    own |= {"owner_id": row.project_id, "image_location": "snapshot", "image_state": "available"}
    first = first_image_of(base, row.image_ref)
    own |= {BASE_IMAGE: row.image_ref} if row.image_ref else {}
    own |= {FIRST_IMAGE: first} if first != row.image_ref else {}
    shared = row.project_id != call.ctx.project_id
    own |= {"instance_owner": row.project_id} if shared else {}
    inherited = {} if base is None else base.properties
    properties = {key: value for key, value in inherited.items() if key not in conf.non_inheritable_image_properties}
    return Image(
        id=str(uuid.uuid4()),
        name=names.checked("Image name", name),
        # The format that the driver writes, whatever image the disk was made from.
        disk_format="qcow2",
        container_format="bare",
        min_disk=max(0 if base is None else base.min_disk, row.flavor.root_gb),
        min_ram=0 if base is None else base.min_ram,
        visibility="shared" if shared else "private",
        owner=call.ctx.project_id,
        properties={**properties, "image_type": SNAPSHOT, **metadata, **own, **more},
    )


def _create_image(
    api: ComputeApiCollaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments
) -> ActionStart:
    """Adds the record of the image, which the conductor stores together with the task."""
    assert isinstance(arguments, CreateImageArguments)
    image = image_of(api.conf, call, session, row, arguments.name, arguments.metadata)
    return begin_with(api, call, image, _name(call, image))


def _create_backup(
    api: ComputeApiCollaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments
) -> ActionStart:
    """Adds the record of the image, as `_create_image`. With a rotation of 0 no image is left, so the answer names
    none.
    """
    assert isinstance(arguments, CreateBackupArguments)
    own = {"image_type": "backup", "backup_type": arguments.backup_type}
    image = image_of(api.conf, call, session, row, arguments.name, arguments.metadata, **own)
    answer = _name(call, image) if arguments.rotation else None
    return begin_with(api, call, image, answer, rotation=arguments.rotation)


def _name(call: Call, image: Image) -> dict[str, str] | None:
    """Returns the answer that names the image, from 2.45 on; before, a header names it."""
    if call.since("2.45"):
        return {"image_id": image.id}
    call.response.set_header("Location", call.url(f"/v2/images/{image.id}"))
    return None


def begin_with(api: ComputeApiCollaborators, call: Call, image: Image, answer: Any = None, **sent: Any) -> ActionStart:
    """Returns the begin of an action that makes this image."""
    arguments = {**sent, "image": msgspec.to_builtins(image)}
    return ActionStart(arguments, answer, during=_announced(api, call, image, arguments))


@contextmanager
def _announced(api: ComputeApiCollaborators, call: Call, image: Image, sent: dict[str, Any]) -> Iterator[None]:
    """Announces the image to the image service. Withdraws it if the conductor refuses the action."""
    image = api.images.announce(call, image)
    sent["image"] = msgspec.to_builtins(image)
    try:
        yield
    except errors.NoAnswer:
        # The conductor may have started the action; if not, an empty image is left, as in Nova.
        raise
    except errors.MinovaError:
        api.images.withdraw(call, image)
        raise


COMPLETE: Mapping[str, Complete] = {CREATE_IMAGE.key: _create_image, CREATE_BACKUP.key: _create_backup}
