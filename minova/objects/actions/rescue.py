"""Rescues from another disk. Pure."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from minova import errors
from minova.objects.actions.action import Arguments, ServerAction
from minova.objects.catalogue.guest_hardware import CDROM_BUSES, DISK_BUSES
from minova.objects.catalogue.image import Image
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import TaskState, VmState

# Properties of images of servers: the image that the server was made from, as in Nova; and the first one of that image's own line.
BASE_IMAGE, FIRST_IMAGE = "base_image_ref", "first_image_ref"


class RescueArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`rescue_image_ref` None: the server's own image. `admin_password` None: one is generated. The API resolves the
    image.
    """

    rescue_image_ref: str | None = None
    admin_password: Annotated[str, msgspec.Meta(max_length=255)] | None = msgspec.field(name="adminPass", default=None)


class RescueDevice(msgspec.Struct, frozen=True, kw_only=True):
    """Where the rescue disk is attached, behind all disks of the server, which keep their places. `bus` None: that of disks, or of
    CD drives.
    """

    bus: str | None = None
    is_cd: bool = False


def rescue_device(properties: Mapping[str, str]) -> RescueDevice | None:
    """Returns where the image wants to be attached; None: before the other disks, in the place of the root disk. Raises BadRequest, which
    names the key, for a device or bus that no guest has.
    """
    kind, bus = properties.get("hw_rescue_device"), properties.get("hw_rescue_bus")
    if not (kind or bus):
        return None
    if kind not in {None, "", "disk", "cdrom"}:
        raise errors.BadRequest(
            f"Requested rescue device '{kind[:64]}' is not supported (hw_rescue_device of the image)"
        )
    is_cd = kind == "cdrom"
    if bus and bus not in (CDROM_BUSES if is_cd else DISK_BUSES):
        raise errors.BadRequest(f"Requested rescue bus '{bus[:64]}' is not supported (hw_rescue_bus of the image)")
    return RescueDevice(bus=bus or None, is_cd=is_cd)


def first_image_of(base: Image | None, image_ref: str) -> str:
    """Returns the image that this one, and all images that it was made from, come from. `base` None: its record is lost."""
    properties = {} if base is None else base.properties
    return properties.get(FIRST_IMAGE) or properties.get(BASE_IMAGE) or image_ref


def is_of_same_system(image: Image, instance: Instance) -> bool:
    """Whether a disk of the image and the root disk of the server may have the same UUIDs: one was made from the other, or both from the
    same image, in any number of steps.
    """
    own = instance.image
    own_origins = {instance.image_ref, *(() if own is None else _origins(own))}
    return bool((own_origins & _origins(image)) - {""})


def _origins(image: Image) -> set[str]:
    return {image.id, *(image.properties.get(key, "") for key in (BASE_IMAGE, FIRST_IMAGE))}


RESCUE = ServerAction(
    kind="rescue",
    done="rescued",
    arguments=RescueArguments,
    vm_states=frozenset({VmState.ACTIVE, VmState.STOPPED, VmState.ERROR}),
    progress=(TaskState.RESCUING,),
    ends_in=VmState.RESCUED,
    fails_in=VmState.ERROR,
    accepted_late=True,
    redefines_domain=True,
    opens_disk=True,
    policy="os-rescue",
)
UNRESCUE = ServerAction(
    kind="unrescue",
    done="unrescued",
    vm_states=frozenset({VmState.RESCUED}),
    progress=(TaskState.UNRESCUING,),
    ends_in=VmState.ACTIVE,
    fails_in=VmState.ERROR,
    accepted_late=True,
    redefines_domain=True,
    opens_disk=True,
    policy="os-unrescue",
)
ACTIONS = (
    RESCUE,
    UNRESCUE,
)
