"""Rescues: the image with which a server is rescued, which its host may download meanwhile."""

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy.orm import Session

from minova.codecs import Decoder
from minova.conductor.actions.engine.kind import ActionKind, parsed
from minova.conductor.actions.engine.payload import decoded
from minova.db.servers import tasks
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.actions.rescue import RESCUE
from minova.objects.catalogue.image import Image


class RescueImage(msgspec.Struct, frozen=True, kw_only=True):
    """None: the server's own image."""

    rescue_image: Image | None = None


_RESCUE = Decoder(RescueImage)


class Rescue(ActionKind):
    def parse(self, arguments: Mapping[str, Any]) -> HostArguments:
        return HostArguments(rescue_image=parsed(_RESCUE, arguments).rescue_image)


def kinds() -> dict[str, ActionKind]:
    return {RESCUE.kind: Rescue()}


def rescue_images(session: Session, instance_uuid: str, host: str) -> set[str]:
    """Returns the ids of the image with which this host rescues the instance now, and of its kernel and ramdisk, if the request or the
    configuration named them.
    """
    payload = tasks.payload_on(session, instance_uuid, host, RESCUE.kind)
    image = None if payload is None else decoded(payload).arguments.rescue_image
    return set() if image is None else {image.id, *(each.id for each in image.boot_files)}
