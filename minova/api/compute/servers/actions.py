"""`POST /servers/{id}/action`: the body's one key is the action.

Those of `objects/server_actions.py` are begun by the conductor, and answered before they are done.
"""

import logging
from typing import Annotated, Any

import msgspec

from minova import errors
from minova.api.compute.collaborators import Collaborators
from minova.api.compute.servers import servers
from minova.api.http.body import MAX_INT64
from minova.api.http.call import Call
from minova.codecs import Decoder
from minova.objects.failures import kind_of, text_of
from minova.objects.server_actions import ACTIONS, BY_KEY, ServerAction

LOG = logging.getLogger(__name__)


class ConsoleOutput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`length` in lines; None or -1: all."""

    length: Annotated[int, msgspec.Meta(ge=-1, le=MAX_INT64)] | None = None


_CONSOLE_OUTPUT = Decoder(ConsoleOutput, strict=False)
CONSOLE_OUTPUT = "os-getConsoleOutput"
# By the key of an action.
POLICIES = {
    CONSOLE_OUTPUT: "os_compute_api:os-console-output",
    **{action.key: f"os_compute_api:servers:{action.name}" for action in ACTIONS},
}


def act(api: Collaborators, call: Call) -> Any:
    """BadRequest: no such action, or not one."""
    if len(call.body) != 1:
        raise errors.BadRequest("Malformed request body: it must hold one action.")
    ((name, arguments),) = call.body.items()
    if name in BY_KEY:
        return start(api, call, BY_KEY[name], arguments)
    if name != CONSOLE_OUTPUT:
        served = ", ".join([CONSOLE_OUTPUT, *(action.key for action in ACTIONS)])
        raise errors.BadRequest(f"There is no such action: {name[:64]}. minova serves {served} so far.")
    try:
        options = _CONSOLE_OUTPUT.from_builtins(arguments)
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid input for {name}: {error}") from None
    return {"output": console_output(api, call, options.length)}


def start(api: Collaborators, call: Call, action: ServerAction, arguments: Any) -> None:
    """202, as soon as it is written down. Conflict: the server's state does not allow it.

    As in Nova, what stands beside the key of an action without arguments is not looked at.
    """
    with api.db.read() as session:
        row = servers.find(call, session)
    api.conductor.start_action(call.ctx, instance_uuid=row.uuid, action=action.name)
    call.response.status = 202


def console_output(api: Collaborators, call: Call, length: int | None) -> str:
    """Conflict: the server has no host yet."""
    with api.db.read() as session:
        row = servers.find(call, session)
    if row.host is None:
        raise errors.Conflict(f"Instance {row.uuid} is not ready: it has no host yet.")
    if length == 0:
        return ""
    lines = None if length in (None, -1) else length
    try:
        output: str = api.compute(row.host).get_console_output(call.ctx, instance_uuid=row.uuid, tail_length=lines)
    except errors.MinovaError as error:
        if call.ctx.is_admin:
            raise
        # The words of a host name its paths and its hypervisor.
        LOG.warning("The console log of instance %s: %s", row.uuid, error)
        raise type(error)(text_of(kind_of(error))) from error
    return output
