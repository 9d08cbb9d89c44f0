"""The record of an image that is made of a server: the properties that it inherits, and those that describe the server.
As in Nova.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.api.http import names
from minova.api.http.call import Call
from minova.db import quotas
from minova.db.api_queries.instances import InstanceRow
from minova.db.servers import instances
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

    Raises Forbidden if there are too many metadata, BadRequest if the name is invalid.
    """
    limit = quotas.limits_of(session, conf, call.ctx.project_id)["metadata_items"]
    if UNLIMITED != limit < len(metadata):
        raise errors.Forbidden(f"Maximum number of metadata items exceeds {limit}.")
    base = instances.by_uuids(session, [row.uuid], networks=False)[row.uuid].image
    own: dict[str, Any] = {"instance_uuid": row.uuid, "user_id": call.ctx.user_id}
    own |= {"base_image_ref": row.image_ref} if row.image_ref else {}
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
