"""`/v2.0/agents` and `/v2.0/availability_zones`: the compute services, which do the work of Neutron's agents on their hosts."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from minova import errors
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.network import answers
from minova.api.network.collaborators import NetworkApiCollaborators
from minova.api.network.common import FieldsQuery
from minova.db.api_queries import availability_zones, services
from minova.uuids import canonical_uuid

KIND = "minova compute"


class AgentsQuery(msgspec.Struct, frozen=True, kw_only=True):
    fields: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    agent_type: tuple[str, ...] = ()
    binary: tuple[str, ...] = ()
    alive: bool | None = None
    availability_zone: tuple[str, ...] = ()


class AgentAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`heartbeat_timestamp`: when the service was last heard, in UTC, in Neutron's form: 2026-11-27 12:00:00."""

    id: str | msgspec.UnsetType = msgspec.UNSET
    agent_type: str | msgspec.UnsetType = msgspec.UNSET
    binary: str | msgspec.UnsetType = msgspec.UNSET
    host: str | msgspec.UnsetType = msgspec.UNSET
    topic: str | msgspec.UnsetType = msgspec.UNSET
    availability_zone: str | msgspec.UnsetType = msgspec.UNSET
    admin_state_up: bool | msgspec.UnsetType = msgspec.UNSET
    alive: bool | msgspec.UnsetType = msgspec.UNSET
    heartbeat_timestamp: str | msgspec.UnsetType | None = msgspec.UNSET
    description: str | msgspec.UnsetType | None = msgspec.UNSET
    configurations: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class ZoneAnswer(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    resource: str
    state: str


def list_agents(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    query: AgentsQuery = call.query
    filters = {name: getattr(query, name) for name in ("host", "agent_type", "binary", "availability_zone")}
    filters["alive"] = () if query.alive is None else (query.alive,)
    agents = [
        agent for agent in _agents(api) if all(not values or agent[name] in values for name, values in filters.items())
    ]
    return {"agents": [_only(agent, query.fields) for agent in agents]}


def show_agent(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    agent_id = call.path["agent_id"]
    for agent in _agents(api):
        if agent["id"] == canonical_uuid(agent_id):
            return {"agent": _only(agent, call.query.fields)}
    raise errors.AgentNotFound(f"Agent {agent_id[:255]} could not be found.")


def list_zones(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    """Networks are in every zone that has computes."""
    enabled: dict[str, bool] = {}
    for agent in _agents(api):
        zone = agent["availability_zone"]
        enabled[zone] = enabled.get(zone, False) or agent["admin_state_up"]
    states = {True: "available", False: "unavailable"}
    return {
        "availability_zones": [
            {"name": name, "resource": "network", "state": states[enabled[name]]} for name in sorted(enabled)
        ]
    }


def _agents(api: NetworkApiCollaborators) -> Iterator[dict[str, Any]]:
    with api.db.read() as session:
        service_list = services.services(session, api.conf.service_down_time, api.db)
        zones = availability_zones.by_host(session)
    for row in service_list.rows:
        if row.topic != "compute":
            continue
        last_seen = service_list.last_seen.get(row.id)
        yield {
            "id": row.uuid,
            "agent_type": KIND,
            "binary": row.binary,
            "host": row.host,
            "topic": row.topic,
            "availability_zone": zones.get(row.host, api.conf.scheduler.default_availability_zone),
            "admin_state_up": not row.disabled,
            "alive": service_list.is_up(row),
            "heartbeat_timestamp": None
            if last_seen is None
            else f"{datetime.fromtimestamp(last_seen, UTC):%Y-%m-%d %H:%M:%S}",
            "description": row.disabled_reason,
            "configurations": {},
        }


def _only(document: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if not fields or name in fields}


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.0/agents",
        rule="get_agent",
        handler=list_agents,
        answer=answers.page("agents", AgentAnswer),
        query=AgentsQuery,
    ),
    Route(
        method="GET",
        path="/v2.0/agents/{agent_id}",
        rule="get_agent",
        handler=show_agent,
        answer={"agent": AgentAnswer},
        query=FieldsQuery,
    ),
    Route(
        method="GET",
        path="/v2.0/availability_zones",
        rule="get_availability_zone",
        handler=list_zones,
        answer={"availability_zones": list[ZoneAnswer]},
    ),
)
