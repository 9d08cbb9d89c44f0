"""Rescues from another disk. Pure."""

from typing import Annotated

import msgspec

from minova.objects.actions.action import Arguments, ServerAction
from minova.objects.servers.states import TaskState, VmState


class RescueArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`rescue_image_ref` None: the server's own image. `admin_password` None: one is generated. The API resolves the
    image.
    """

    rescue_image_ref: str | None = None
    admin_password: Annotated[str, msgspec.Meta(max_length=255)] | None = msgspec.field(name="adminPass", default=None)


RESCUE = ServerAction(
    kind="rescue",
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
