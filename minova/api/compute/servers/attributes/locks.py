"""Locks of servers, and states that administrators set. These actions are answered at once."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

import msgspec

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers import servers
from minova.api.http.call import Call
from minova.api.http.microversions import History, added, require_no_fields
from minova.api.policies.enforcer import Target
from minova.codecs import Decoder
from minova.objects.servers.server_changes import ADMIN, OWNER, ServerChanges

OVERRIDE = "os_compute_api:os-lock-server:unlock:unlock_override"
RESET_STATE = "os-resetState"


class ResetState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    state: Literal["active", "error"]


class Lock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    locked_reason: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] | None = None


BODY_HISTORY = History(Lock, added("2.73", "locked_reason"))
_LOCK = Decoder(Lock, strict=False)
_RESET_STATE = Decoder(ResetState, strict=False)


def set_lock(lock: bool, api: ComputeApiCollaborators, call: Call, arguments: Any) -> None:
    """Locks or unlocks the server.

    Raises BadRequest for a reason before 2.73, Forbidden if an administrator has locked the server and the caller is a user of its project.
    """
    reason = None
    if lock and not call.has(BODY_HISTORY, "locked_reason"):
        require_no_fields(arguments)
    elif lock and arguments is not None:
        try:
            reason = _LOCK.from_builtins(arguments).locked_reason
        except msgspec.ValidationError as error:
            raise errors.BadRequest(f"Invalid input for field/attribute lock. {error}") from None
    with api.db.read() as session:
        row = servers.find(call, session)
    expected = OWNER if row.project_id == call.ctx.project_id else ADMIN
    if not lock and row.locked_by not in (None, expected):
        call.require(OVERRIDE, Target(project_id=row.project_id, user_id=row.user_id))
    api.conductor.update_server(
        call.ctx, instance_uuid=row.uuid, changes=ServerChanges(lock=lock, locked_reason=reason)
    )
    call.response.status = 202


def reset_state(api: ComputeApiCollaborators, call: Call, arguments: Any) -> None:
    """Sets the state of the server and answers 202.

    Raises Conflict if the server is being built, moved or deleted, or has no host to be active on.
    """
    try:
        reset = _RESET_STATE.from_builtins(arguments)
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid input for {RESET_STATE}: {error}") from None
    with api.db.read() as session:
        row = servers.find(call, session)
    api.conductor.reset_server_state(call.ctx, instance_uuid=row.uuid, vm_state=reset.state)
    call.response.status = 202


# Actions by their key.
ACTIONS: Mapping[str, Callable[[ComputeApiCollaborators, Call, Any], Any]] = {
    "lock": partial(set_lock, True),
    "unlock": partial(set_lock, False),
    RESET_STATE: reset_state,
}
POLICIES = {
    "lock": "os_compute_api:os-lock-server:lock",
    "unlock": "os_compute_api:os-lock-server:unlock",
    RESET_STATE: "os_compute_api:os-admin-actions:reset_state",
}
