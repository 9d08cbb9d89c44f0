"""`evacuate`: a server of a host that is down is built again on another one."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers import guest_data, servers
from minova.api.compute.servers.attributes.diagnosis import redact_for
from minova.api.http.call import Call
from minova.api.http.microversions import History, added, changed, removed
from minova.api.http.structs import Boolean, is_true
from minova.codecs import Decoder
from minova.db.api_queries import services as read_services
from minova.db.servers import instances
from minova.hardware.guest.secret_rules import require_evacuable
from minova.objects.requests.diagnosis import ScheduleAnswer
from minova.objects.requests.evacuation import ACTION, EvacuationRequest

HostName = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class EvacuateArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The value of `evacuate`."""

    host: HostName | msgspec.UnsetType = msgspec.UNSET
    admin_password: str | msgspec.UnsetType = msgspec.field(name="adminPass", default=msgspec.UNSET)
    on_shared_storage: Boolean | msgspec.UnsetType = msgspec.field(name="onSharedStorage", default=msgspec.UNSET)
    force: Boolean | msgspec.UnsetType = msgspec.UNSET


BODY_HISTORY = History(
    EvacuateArguments,
    removed("2.14", "onSharedStorage", note="required before; now the host finds out, and the answer has no adminPass"),
    added("2.29", "force"),
    changed("2.29", "host", note="the scheduler checks it, unless `force` is set; before, it was always forced"),
    removed("2.68", "force"),
    title=ACTION,
)
_ARGUMENTS = Decoder(EvacuateArguments)
# From this version on an evacuated server is stopped at its new host.
STOPS = "2.95"


def evacuate(api: ComputeApiCollaborators, call: Call, body: Any) -> dict[str, Any] | None:
    """Answers as soon as the conductor has stored it. Until 2.13 the answer has the password, as in Nova.

    Raises BadRequest if the body is invalid, or the server's host is not down; NotFound if there is no such host;
    Conflict if the state of the server does not allow it.
    """
    uuid, request = _checked(api, call, body)
    api.conductor.evacuate_server(call.ctx, instance_uuid=uuid, request=request, override_lock=call.ctx.is_admin)
    call.response.status = 200
    shows_password = not call.since("2.14") and api.conf.api.enable_instance_password
    return {"adminPass": request.admin_password} if shows_password else None


def dry_run(api: ComputeApiCollaborators, call: Call, body: Any) -> dict[str, Any]:
    """Raises as `evacuate`."""
    uuid, request = _checked(api, call, body)
    answer = api.conductor.preview_evacuation(
        call.ctx, instance_uuid=uuid, request=request, override_lock=call.ctx.is_admin
    )
    return dry_run_answer(call, answer)


def _checked(api: ComputeApiCollaborators, call: Call, body: Any) -> tuple[str, EvacuationRequest]:
    """Returns the server's uuid and what is requested of it."""
    with api.db.read() as session:
        row = servers.find(call, session)
        require_evacuable(instances.by_uuids(session, [row.uuid], networks=False)[row.uuid])
        return row.uuid, requested(call, session, body)


def dry_run_answer(call: Call, answer: ScheduleAnswer) -> dict[str, Any]:
    """Returns where an action would take a server, or why it would take it nowhere."""
    return {
        "dry_run": {
            "fits": bool(answer.selections),
            "count": 1,
            "reason": None if answer.selections else answer.diagnosis.summary(),
            "diagnosis": redact_for(call, answer.diagnosis),
        }
    }


def requested(call: Call, session: Session, body: Any) -> EvacuationRequest:
    """Raises BadRequest if a field is invalid, or the microversion does not have it. Raises NotFound if there is no such
    host.
    """
    try:
        arguments = _ARGUMENTS.from_builtins(body if body is not None else {})
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid input for {ACTION}: {error}") from None
    _check_version(call, arguments)
    host = None if arguments.host is msgspec.UNSET else arguments.host
    if host is not None and not read_services.has_node(session, host, None):
        raise errors.NotFound(f"Compute host {host} not found.")
    shared = None if arguments.on_shared_storage is msgspec.UNSET else is_true(arguments.on_shared_storage)
    return EvacuationRequest(
        host=host,
        force=_is_forced(call, arguments, host),
        stops=call.since(STOPS),
        shared_disks=shared,
        admin_password=_password(arguments, shared),
    )


def _check_version(call: Call, arguments: EvacuateArguments) -> None:
    for name, value in (("onSharedStorage", arguments.on_shared_storage), ("force", arguments.force)):
        if value is not msgspec.UNSET and not call.has(BODY_HISTORY, name):
            raise errors.BadRequest(f"Additional properties are not allowed ('{name}' was unexpected)")
    if not call.since("2.14") and arguments.on_shared_storage is msgspec.UNSET:
        raise errors.BadRequest(f"Invalid input for {ACTION}: 'onSharedStorage' is a required property")


def _is_forced(call: Call, arguments: EvacuateArguments, host: str | None) -> bool:
    """As in Nova, a host of a version without `force` is forced until 2.28, and checked from 2.68 on."""
    if not call.since("2.29"):
        return host is not None
    force = arguments.force is not msgspec.UNSET and is_true(arguments.force)
    if force and host is None:
        raise errors.BadRequest("Can't force to a non-provided destination")
    return force


def _password(arguments: EvacuateArguments, shared: bool | None) -> str | None:
    """Returns the password of a guest whose disks are made anew."""
    if arguments.admin_password is not msgspec.UNSET:
        if shared:
            raise errors.BadRequest("admin password can't be changed on existing disk")
        return arguments.admin_password
    return None if shared else guest_data.new_password()


ACTIONS: Mapping[str, Callable[[ComputeApiCollaborators, Call, Any], Any]] = {ACTION: evacuate}
POLICIES = {ACTION: "os_compute_api:os-evacuate"}
DRY_RUNS: Mapping[str, Callable[[ComputeApiCollaborators, Call, Any], Any]] = {ACTION: dry_run}
