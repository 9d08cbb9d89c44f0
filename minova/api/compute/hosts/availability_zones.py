"""`/os-availability-zone`: the zones for servers, and for administrators the hosts and services in them."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.hosts.services import shown_binary, zone_of
from minova.api.http import times
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.db.api_queries import availability_zones
from minova.db.api_queries import services as read_services

# A service that Nova shows in no zone.
_UNSEEN = "minova-api"


class State(msgspec.Struct, frozen=True, kw_only=True):
    available: bool


class ZoneView(msgspec.Struct, frozen=True, kw_only=True):
    """`hosts`: {host: {binary: state}}, for administrators."""

    name: str = msgspec.field(name="zoneName")
    state: State = msgspec.field(name="zoneState")
    hosts: dict[str, dict[str, Any]] | None = None


def list_zones(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Lists the zones of compute services. The internal zone of all other services is not shown."""
    services, zones = _gathered(api)
    computes = [row for row in services.rows if row.topic == "compute"]
    enabled = {zones[row.id] for row in computes if not row.disabled}
    disabled = {zones[row.id] for row in computes} - enabled
    return {
        "availabilityZoneInfo": [
            *(ZoneView(name=name, state=State(available=True)) for name in sorted(enabled)),
            *(ZoneView(name=name, state=State(available=False)) for name in sorted(disabled)),
        ]
    }


def list_detail(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    services, zones = _gathered(api)
    hosts: dict[str, dict[str, dict[str, Any]]] = {}
    for row in services.rows:
        if row.disabled or row.binary == _UNSEEN:
            continue
        last_seen = services.last_seen.get(row.id)
        hosts.setdefault(zones[row.id], {}).setdefault(row.host, {})[shown_binary(api, call, row.binary)] = {
            "available": services.is_up(row),
            "active": True,
            "updated_at": None if last_seen is None else times.microseconds(datetime.fromtimestamp(last_seen, UTC)),
        }
    empty_zones = {*zones.values()} - hosts.keys()
    return {
        "availabilityZoneInfo": [
            *(ZoneView(name=name, state=State(available=True), hosts=hosts[name]) for name in sorted(hosts)),
            *(ZoneView(name=name, state=State(available=False)) for name in sorted(empty_zones)),
        ]
    }


class ServicesInZones(NamedTuple):
    """`zones`: the zone of each service, by the id of the service."""

    services: read_services.ServiceLiveness
    zones: dict[int, str]


def _gathered(api: ComputeApiCollaborators) -> ServicesInZones:
    with api.db.read() as session:
        services = read_services.services(session, api.conf.service_down_time, api.db)
        by_host = availability_zones.by_host(session)
    default = api.conf.scheduler.default_availability_zone
    return ServicesInZones(services, {row.id: zone_of(row, by_host, default) for row in services.rows})


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/os-availability-zone",
        rule="os_compute_api:os-availability-zone:list",
        handler=list_zones,
        answer={"availabilityZoneInfo": list[ZoneView]},
    ),
    Route(
        method="GET",
        path="/v2.1/os-availability-zone/detail",
        rule="os_compute_api:os-availability-zone:detail",
        handler=list_detail,
        answer={"availabilityZoneInfo": list[ZoneView]},
    ),
)
