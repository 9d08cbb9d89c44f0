"""Actions on a server's console that are answered at once: its output, and an address that opens it."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode

import msgspec

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers import servers
from minova.api.http.body import MAX_INT64
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.microversions import History, changed
from minova.codecs import Decoder
from minova.db.api_queries.instances import InstanceRow
from minova.objects.guests.console import ConsoleType
from minova.objects.servers.failures import kind_of, text_of

LOG = logging.getLogger(__name__)
T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)
Action = Callable[[ComputeApiCollaborators, Call, Any], Any]

OUTPUT_POLICY = "os_compute_api:os-console-output"
REMOTE_POLICY = "os_compute_api:os-remote-consoles"


class ConsoleOutput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`length` in lines; None and -1 mean all lines."""

    length: Annotated[int, msgspec.Meta(ge=-1, le=MAX_INT64)] | None = None


class RemoteConsole(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: str


class NewConsole(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    protocol: str
    type: str


class CreateConsole(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    remote_console: NewConsole


BODY_HISTORY = History(
    NewConsole,
    changed(
        "2.8", "protocol", "type", note="mks and webmks are known; refused with 400, as no guest has such a console"
    ),
    changed("2.99", "type", note="spice-direct is known; refused likewise"),
)
# The console types of each protocol.
PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "vnc": ("novnc", "xvpvnc"),
    "spice": ("spice-html5", "spice-direct"),
    "rdp": ("rdp-html5",),
    "serial": ("serial",),
    "mks": ("webmks",),
}
_CONSOLE_OUTPUT = Decoder(ConsoleOutput, strict=False)
_REMOTE_CONSOLE = Decoder(RemoteConsole)
# OpenStack's console types, by the action that requests them.
TYPES: Mapping[str, tuple[str, ...]] = {
    "os-getVNCConsole": ("novnc", "xvpvnc"),
    "os-getSPICEConsole": ("spice-html5",),
    "os-getRDPConsole": ("rdp-html5",),
    "os-getSerialConsole": ("serial",),
}


def console_output(api: ComputeApiCollaborators, call: Call, arguments: Any) -> dict[str, Any]:
    """Raises Conflict if the server has no host yet."""
    length = _options(_CONSOLE_OUTPUT, "os-getConsoleOutput", arguments).length
    row = _placed(api, call)
    if length == 0:
        return {"output": ""}
    lines = None if length in (None, -1) else length
    host = api.compute(str(row.host))
    read = partial(host.get_console_output, call.ctx, instance_uuid=row.uuid, tail_length=lines)
    return {"output": from_host(call, row, "console log", read)}


def remote_console(name: str, api: ComputeApiCollaborators, call: Call, arguments: Any) -> dict[str, Any]:
    """Returns a new address that opens the console once.

    Raises BadRequest if there is no such console, Conflict if the guest does not run.
    """
    console_type = _options(_REMOTE_CONSOLE, name, arguments).type
    if console_type not in TYPES[name]:
        raise errors.BadRequest(
            f"Invalid input for field/attribute type. Value: {console_type[:32]}. It is not one of {list(TYPES[name])}"
        )
    return {"console": {"type": console_type, "url": _opened(api, call, console_type)}}


def create(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """The same as `remote_console`, from 2.6 on.

    Raises BadRequest if there is no such console, or if the type belongs to another protocol.
    """
    body: NewConsole = call.body.remote_console
    protocols = PROTOCOLS if call.since("2.8") else {key: value for key, value in PROTOCOLS.items() if key != "mks"}
    spice_direct = call.since("2.99") or body.type != "spice-direct"
    if body.protocol not in protocols or body.type not in {each for types in protocols.values() for each in types}:
        raise _invalid("protocol" if body.protocol not in protocols else "type", body)
    if body.type not in protocols[body.protocol] or not spice_direct:
        raise _invalid("type", body)
    url = _opened(api, call, body.type)
    return {"remote_console": {"protocol": body.protocol, "type": body.type, "url": url}}


def _invalid(field: str, body: NewConsole) -> errors.BadRequest:
    value = body.protocol if field == "protocol" else body.type
    return errors.BadRequest(f"Invalid input for field/attribute {field}. Value: {value[:32]}. It is not allowed here.")


def _opened(api: ComputeApiCollaborators, call: Call, console_type: str) -> str:
    row = _placed(api, call)
    if console_type not in [*ConsoleType]:
        served = " and ".join(ConsoleType)
        raise errors.ConsoleTypeUnavailable(f"Unavailable console type {console_type}. minova serves {served}.")
    host = api.compute(str(row.host))
    # Only checks that the console exists now. The proxy requests its place again.
    ask = partial(host.get_console, call.ctx, instance_uuid=row.uuid, console_type=console_type)
    from_host(call, row, f"{console_type} console", ask)
    if console_type == ConsoleType.NOVNC:
        api.console_page.require(str(api.conf.vnc.novncproxy_base_url))
    token = api.conductor.create_console_token(call.ctx, instance_uuid=row.uuid, console_type=console_type)
    return address(api, ConsoleType(console_type), token)


def address(api: ComputeApiCollaborators, console_type: ConsoleType, token: str) -> str:
    """Returns the address that a browser or a terminal opens."""
    query = urlencode({"token": token})
    if console_type is ConsoleType.SERIAL:
        return f"{api.conf.serial_console.base_url}?{query}"
    # noVNC's page connects to the address in its parameter `path`.
    return f"{api.conf.vnc.novncproxy_base_url}?{urlencode({'path': f'?{query}'})}"


ACTIONS: Mapping[str, Action] = {
    "os-getConsoleOutput": console_output,
    **{name: partial(remote_console, name) for name in TYPES},
}
POLICIES: Mapping[str, str] = {"os-getConsoleOutput": OUTPUT_POLICY, **dict.fromkeys(TYPES, REMOTE_POLICY)}


def _options(decoder: Decoder[S], name: str, arguments: Any) -> S:
    try:
        return decoder.from_builtins(arguments)
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid input for {name}: {error}") from None


def _placed(api: ComputeApiCollaborators, call: Call) -> InstanceRow:
    with api.db.read() as session:
        row = servers.find(call, session)
    if row.host is None:
        raise errors.Conflict(f"Instance {row.uuid} is not ready: it has no host yet.")
    return row


def from_host(call: Call, row: InstanceRow, what: str, ask: Callable[[], T]) -> T:
    """Returns the answer of the host. On an error other than BadRequest and Conflict, users get a fixed text,
    administrators the original one.
    """
    try:
        return ask()
    except (errors.BadRequest, errors.Conflict):
        raise
    except errors.MinovaError as error:
        if call.ctx.is_admin:
            raise
        # The host's own text names its paths and its hypervisor.
        LOG.warning("The %s of instance %s: %s", what, row.uuid, error)
        raise type(error)(text_of(kind_of(error))) from error


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/v2.1/servers/{server_id}/remote-consoles",
        rule="os_compute_api:os-remote-consoles",
        handler=create,
        answer={"remote_console": dict[str, str]},
        body=CreateConsole,
        since=(2, 6),
    ),
)
