"""`/os-services`: the state of services, and switches that enable and disable them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.http import times
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.microversions import History, added, changed, removed
from minova.api.http.structs import Boolean, is_true
from minova.db.api_queries import availability_zones
from minova.db.api_queries import services as read_services
from minova.uuids import canonical_uuid

Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
# The zone of services that hold no servers; users cannot request it.
INTERNAL_ZONE = "internal"
# The most digits of a service's id: numbers of this length fit into 64 bits.
ID_DIGITS = 18


class ServicesQuery(msgspec.Struct, frozen=True, kw_only=True):
    host: str | None = None
    binary: str | None = None


class Switch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`host` and `binary` name the service, until 2.52. `forced_down` and `disabled_reason` each belong to one action.
    `status` is Nova's field, from 2.53 on.
    """

    host: str | msgspec.UnsetType = msgspec.UNSET
    binary: str | msgspec.UnsetType = msgspec.UNSET
    status: Literal["enabled", "disabled"] | None = None
    disabled_reason: Reason | None = None
    forced_down: Boolean | None = None


class ServiceView(msgspec.Struct, frozen=True, kw_only=True):
    """`in_doubt` is minova's own: the service counts as up although its heartbeats are missing."""

    id: int | str
    binary: str
    host: str
    zone: str
    status: str
    state: str
    in_doubt: bool | msgspec.UnsetType = msgspec.UNSET
    updated_at: str | None
    disabled_reason: str | None
    forced_down: bool


QUERY_HISTORY = History(ServicesQuery, strict_since=(2, 75))
BODY_HISTORY = History(Switch, added("2.11", "forced_down"), added("2.53", "status"), removed("2.53", "host", "binary"))
ANSWER_HISTORY = History(ServiceView, added("2.11", "forced_down"), changed("2.53", "id", note="is the UUID"))
BY_UUID = "2.53"


def list_services(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    query: ServicesQuery = call.query
    with api.db.read() as session:
        services = read_services.services(session, api.conf.service_down_time, api.db)
        zones = availability_zones.by_host(session)
    binary = ours(query.binary)
    zone = api.conf.scheduler.default_availability_zone
    return {
        "services": [
            view(call, row, services, zone_of(row, zones, zone), shown_binary(api, call, row.binary))
            for row in services.rows
            if query.host in (None, row.host) and binary in (None, row.binary)
        ]
    }


def switch(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Enables a service, disables it (with a reason) or forces it down.

    The last part of the path is the action; from 2.53 on it is the UUID of the service.
    """
    body: Switch = call.body
    if call.since(BY_UUID):
        return _update(api, call, body)
    if isinstance(body.host, msgspec.UnsetType) or isinstance(body.binary, msgspec.UnsetType):
        raise errors.BadRequest("Invalid input for field/attribute body. 'host' and 'binary' are required properties")
    action = call.path["id_or_action"]
    if action == "force-down" and not call.has(BODY_HISTORY, "forced_down"):
        raise errors.NotFound("Unknown action")
    changes = _changes(action, body)
    service = _find(api, body.host, body.binary)
    api.conductor.update_service(call.ctx, service_uuid=service.uuid, **changes)
    identity = {"host": service.host, "binary": shown_binary(api, call, service.binary)}
    if action == "force-down":
        return {"service": identity | {"forced_down": is_true(body.forced_down)}}
    answer = identity | {"status": "enabled" if action == "enable" else "disabled"}
    if action == "disable-log-reason":
        answer["disabled_reason"] = body.disabled_reason or ""
    return {"service": answer}


def _update(api: ComputeApiCollaborators, call: Call, body: Switch) -> dict[str, Any]:
    """Raises BadRequest if the update changes nothing or contradicts itself, or if the service is not a compute."""
    uuid = _uuid(call)
    changes: dict[str, Any] = {}
    if body.status == "enabled" and body.disabled_reason is not None:
        raise errors.BadRequest("Specifying 'disabled_reason' with status 'enabled' is invalid.")
    if body.status is not None:
        changes = {"disabled": body.status == "disabled", "disabled_reason": body.disabled_reason}
    if body.forced_down is not None:
        changes["forced_down"] = is_true(body.forced_down)
    service = _by_uuid(api, uuid)
    if service.topic != "compute":
        name = shown_binary(api, call, service.binary)
        raise errors.BadRequest(
            f"Updating a {name} service is not supported. Only nova-compute services can be updated."
        )
    if not changes:
        raise errors.BadRequest("No updates were requested. Fields 'status' or 'forced_down' should be specified.")
    api.conductor.update_service(call.ctx, service_uuid=uuid, **changes)
    with api.db.read() as session:
        services = read_services.services(session, api.conf.service_down_time, api.db)
        zones = availability_zones.by_host(session)
    row = next((row for row in services.rows if row.uuid == uuid), None)
    if row is None:
        raise errors.NotFound(f"Service {uuid} not found.")
    zone = zone_of(row, zones, api.conf.scheduler.default_availability_zone)
    return {"service": view(call, row, services, zone, shown_binary(api, call, row.binary))}


def _uuid(call: Call) -> str:
    service_id = call.path["id_or_action"]
    uuid = canonical_uuid(service_id)
    if uuid is None:
        raise errors.BadRequest(f"Invalid uuid {service_id[:64]}")
    return uuid


def _by_uuid(api: ComputeApiCollaborators, uuid: str) -> read_services.ServiceRow:
    with api.db.read() as session:
        rows = read_services.services(session, api.conf.service_down_time, api.db).rows
    service = next((row for row in rows if row.uuid == uuid), None)
    if service is None:
        raise errors.NotFound(f"Service {uuid} not found.")
    return service


def delete(api: ComputeApiCollaborators, call: Call) -> None:
    """Raises BadRequest if the id is not a number, or from 2.53 on not a UUID; NotFound if there is no such service;
    Conflict if the host has instances, migrations in progress or builds.
    """
    service_id = call.path["id_or_action"]
    if call.since(BY_UUID):
        api.conductor.delete_service(call.ctx, service_uuid=_by_uuid(api, _uuid(call)).uuid)
        return
    if not (service_id.isascii() and service_id.isdigit() and len(service_id) <= ID_DIGITS):
        raise errors.BadRequest(
            f"Invalid service id {service_id[:64]}: it must be an integer of at most {ID_DIGITS} digits."
        )
    with api.db.read() as session:
        uuid = read_services.uuid_of(session, int(service_id))
    if uuid is None:
        raise errors.NotFound(f"Service {service_id[:64]} not found.")
    api.conductor.delete_service(call.ctx, service_uuid=uuid)


def _changes(action: str, body: Switch) -> dict[str, Any]:
    if action == "enable":
        return {"disabled": False}
    if action == "disable":
        return {"disabled": True}
    if action == "disable-log-reason":
        if body.disabled_reason is None:
            raise errors.BadRequest("disable-log-reason needs a disabled_reason.")
        return {"disabled": True, "disabled_reason": body.disabled_reason}
    if action == "force-down":
        if body.forced_down is None:
            raise errors.BadRequest("force-down needs forced_down: true or false.")
        return {"forced_down": is_true(body.forced_down)}
    raise errors.NotFound("Unknown action: enable, disable, disable-log-reason and force-down are served.")


def _find(api: ComputeApiCollaborators, host: str, binary: str) -> read_services.ServiceRow:
    with api.db.read() as session:
        rows = read_services.services(session, api.conf.service_down_time, api.db).rows
    for row in rows:
        if row.host == host and row.binary == ours(binary):
            return row
    raise errors.NotFound(f"Could not find binary {binary} on host {host}.")


def ours(binary: str | None) -> str | None:
    """Returns minova's name of a binary: OpenStack's clients call minova-compute nova-compute."""
    return binary and (f"minova-{binary.removeprefix('nova-')}" if binary.startswith("nova-") else binary)


def zone_of(row: read_services.ServiceRow, by_host: Mapping[str, str], default: str) -> str:
    """`by_host`: the zones that aggregates give to hosts."""
    return by_host.get(row.host, default) if row.topic == "compute" else INTERNAL_ZONE


def shown_binary(api: ComputeApiCollaborators, call: Call, binary: str) -> str:
    """Returns `nova-compute` for `minova-compute`, because scripts compare with that name; minova's own clients get the
    name of the process.
    """
    if call.shows_all or not api.conf.api.nova_service_names:
        return binary
    return f"nova-{binary.removeprefix('minova-')}"


def view(
    call: Call, row: read_services.ServiceRow, services: read_services.ServiceLiveness, zone: str, binary: str
) -> ServiceView:
    last_seen = services.last_seen.get(row.id)
    complete = ServiceView(
        id=row.uuid if call.since(BY_UUID) else row.id,
        binary=binary,
        host=row.host,
        zone=zone,
        status="disabled" if row.disabled else "enabled",
        state="up" if services.is_up(row) else "down",
        in_doubt=row.id in services.in_doubt if call.shows_all else msgspec.UNSET,
        updated_at=None if last_seen is None else times.microseconds(datetime.fromtimestamp(last_seen, UTC)),
        disabled_reason=row.disabled_reason or row.down_reason or row.refused_report,
        forced_down=row.forced_down,
    )
    return call.shown(ANSWER_HISTORY, complete)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/os-services",
        rule="os_compute_api:os-services:list",
        handler=list_services,
        answer={"services": list[ServiceView]},
        query=ServicesQuery,
    ),
    Route(
        method="DELETE",
        path="/v2.1/os-services/{id_or_action}",
        rule="os_compute_api:os-services:delete",
        handler=delete,
        status=204,
    ),
    Route(
        method="PUT",
        path="/v2.1/os-services/{id_or_action}",
        rule="os_compute_api:os-services:update",
        handler=switch,
        body=Switch,
    ),
)
