"""`/os-services`: which are up, and which get new work."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from minova import errors
from minova.api.compute.collaborators import Collaborators
from minova.api.http import times
from minova.api.http.call import Call
from minova.db.api_queries import availability_zones
from minova.db.api_queries import services as read_services

Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
# Services that hold no instances are in no zone that users could ask for.
INTERNAL_ZONE = "internal"
# Of a service's id: as many always fit into 64 bits.
ID_DIGITS = 18


class ServicesQuery(msgspec.Struct, frozen=True, kw_only=True):
    host: str | None = None
    binary: str | None = None


class Switch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which service; `forced_down` and `disabled_reason` belong to one of the actions each."""

    host: str
    binary: str
    disabled_reason: Reason | None = None
    forced_down: bool | None = None


class ServiceView(msgspec.Struct, frozen=True, kw_only=True):
    """`in_doubt` is minova's own: the service counts as up, although its heartbeats are missing."""

    id: int
    binary: str
    host: str
    zone: str
    status: str
    state: str
    in_doubt: bool
    updated_at: str | None
    disabled_reason: str | None
    forced_down: bool


def list_services(api: Collaborators, call: Call) -> dict[str, Any]:
    query: ServicesQuery = call.query
    with api.db.read() as session:
        services = read_services.services(session, api.conf.service_down_time, api.db)
        zones = availability_zones.by_host(session)
    binary = ours(query.binary)
    zone = api.conf.scheduler.default_availability_zone
    return {
        "services": [
            view(row, services, zone_of(row, zones, zone))
            for row in services.rows
            if query.host in (None, row.host) and binary in (None, row.binary)
        ]
    }


def switch(api: Collaborators, call: Call) -> dict[str, Any]:
    """Enable, disable (with a reason), or force down: the action is the last part of the path."""
    body: Switch = call.body
    action = call.path["id_or_action"]
    changes = _changes(action, body)
    service = _find(api, body)
    api.conductor.update_service(call.ctx, service_uuid=service.uuid, **changes)
    named = {"host": service.host, "binary": service.binary}
    if action == "force-down":
        return {"service": named | {"forced_down": body.forced_down}}
    answer = named | {"status": "enabled" if action == "enable" else "disabled"}
    if action == "disable-log-reason":
        answer["disabled_reason"] = body.disabled_reason or ""
    return {"service": answer}


def delete(api: Collaborators, call: Call) -> None:
    """BadRequest: the id is no number. NotFound. Conflict: the host has instances, migrations in progress or builds."""
    wanted = call.path["id_or_action"]
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) <= ID_DIGITS):
        raise errors.BadRequest(
            f"Invalid service id {wanted[:64]}: it must be an integer of at most {ID_DIGITS} digits."
        )
    with api.db.read() as session:
        uuid = read_services.uuid_of(session, int(wanted))
    if uuid is None:
        raise errors.NotFound(f"Service {wanted[:64]} not found.")
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
        return {"forced_down": body.forced_down}
    raise errors.NotFound("Unknown action: enable, disable, disable-log-reason and force-down are served.")


def _find(api: Collaborators, body: Switch) -> read_services.ServiceRow:
    with api.db.read() as session:
        rows = read_services.services(session, api.conf.service_down_time, api.db).rows
    for row in rows:
        if row.host == body.host and row.binary == ours(body.binary):
            return row
    raise errors.NotFound(f"Could not find binary {body.binary} on host {body.host}.")


def ours(binary: str | None) -> str | None:
    """OpenStack's clients speak of nova-compute: minova-compute is meant."""
    return binary and (f"minova-{binary.removeprefix('nova-')}" if binary.startswith("nova-") else binary)


def zone_of(row: read_services.ServiceRow, by_host: Mapping[str, str], default: str) -> str:
    """`by_host`: the zones of hosts that aggregates say."""
    return by_host.get(row.host, default) if row.topic == "compute" else INTERNAL_ZONE


def view(row: read_services.ServiceRow, services: read_services.Services, zone: str) -> ServiceView:
    seen = services.last_seen.get(row.id)
    return ServiceView(
        id=row.id,
        binary=row.binary,
        host=row.host,
        zone=zone,
        status="disabled" if row.disabled else "enabled",
        state="up" if services.is_up(row) else "down",
        in_doubt=row.id in services.in_doubt,
        updated_at=None if seen is None else times.microseconds(datetime.fromtimestamp(seen, UTC)),
        disabled_reason=row.disabled_reason or row.down_reason,
        forced_down=row.forced_down,
    )
