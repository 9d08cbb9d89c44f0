"""`/os-simple-tenant-usage`: how long each project has used how many vCPUs, how much memory and disk.

Deleted servers count until their rows are purged.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.http import links, times
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.links import Link
from minova.api.http.microversions import History, added
from minova.api.http.structs import PageQuery, page_size
from minova.api.policies.enforcer import Target
from minova.db.api_queries import usages
from minova.db.models import Instance

_FORMATS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f")


class UsageQuery(PageQuery, frozen=True, kw_only=True):
    """`marker`: the id of the last server of the page before."""

    start: str | None = None
    end: str | None = None


class UsagesQuery(UsageQuery, frozen=True, kw_only=True):
    """`detailed`: 1 shows the servers."""

    detailed: str | None = None


class ServerUsage(msgspec.Struct, frozen=True, kw_only=True):
    """`hours` are within the period; `uptime` is in seconds over the whole life of the server."""

    instance_id: str
    name: str
    tenant_id: str
    flavor: str
    vcpus: int
    memory_mb: int
    local_gb: int
    state: str
    started_at: str | None
    ended_at: str | None
    hours: float
    uptime: int


class TenantUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Totals are in hours: of servers, vCPUs, MiB and GiB."""

    tenant_id: str
    start: str | None
    stop: str | None
    total_hours: float
    total_vcpus_usage: float
    total_memory_mb_usage: float
    total_local_gb_usage: float
    server_usages: tuple[ServerUsage, ...] | msgspec.UnsetType = msgspec.UNSET


ASKED_OF_ALL = History(UsagesQuery, added("2.40", "limit", "marker"), strict_since=(2, 75))
ASKED_OF_ONE = History(UsageQuery, added("2.40", "limit", "marker"), strict_since=(2, 75))


class Period(NamedTuple):
    """Times in UTC, without a zone."""

    start: datetime
    end: datetime
    now: datetime


def index(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    query: UsagesQuery = call.query
    period, rows = _read(api, call, query, None)
    by_project: dict[str, list[Instance]] = {}
    for row in rows:
        by_project.setdefault(row.project_id, []).append(row)
    detailed = query.detailed == "1"
    tenant_usages = [
        usage_of(project_id, period, of_project, detailed=detailed) for project_id, of_project in by_project.items()
    ]
    return {"tenant_usages": tenant_usages, **_links(api, call, query, rows, "tenant_usages_links")}


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Returns an empty usage for a project without servers in the period."""
    query: UsageQuery = call.query
    project_id = call.path["project_id"]
    call.require_for(Target(project_id=project_id))
    period, rows = _read(api, call, query, project_id)
    usage: TenantUsage | dict[str, str] = usage_of(project_id, period, rows, detailed=True) if rows else {}
    return {"tenant_usage": usage, **_links(api, call, query, rows, "tenant_usage_links")}


def usage_of(project_id: str, period: Period, rows: Sequence[Instance], *, detailed: bool) -> TenantUsage:
    servers = tuple(_of_server(row, period) for row in rows)
    return TenantUsage(
        tenant_id=project_id,
        start=times.microseconds(period.start),
        stop=times.microseconds(period.end),
        total_hours=sum(server.hours for server in servers),
        total_vcpus_usage=sum(server.vcpus * server.hours for server in servers),
        total_memory_mb_usage=sum(server.memory_mb * server.hours for server in servers),
        total_local_gb_usage=sum(server.local_gb * server.hours for server in servers),
        server_usages=servers if detailed else msgspec.UNSET,
    )


def _of_server(row: Instance, period: Period) -> ServerUsage:
    started = row.launched_at or period.end
    ended = row.terminated_at
    billed = max(timedelta(), min(period.end, ended or period.end) - max(period.start, started))
    return ServerUsage(
        instance_id=row.uuid,
        name=row.display_name,
        tenant_id=row.project_id,
        flavor=row.flavor.name,
        vcpus=row.flavor.vcpus,
        memory_mb=row.flavor.memory_mb,
        local_gb=row.flavor.root_gb + row.flavor.ephemeral_gb,
        state="terminated" if ended else row.vm_state,
        started_at=times.microseconds(row.launched_at),
        ended_at=times.microseconds(ended),
        hours=billed.total_seconds() / 3600,
        uptime=int(((ended or period.now) - started).total_seconds()),
    )


def _read(
    api: ComputeApiCollaborators, call: Call, query: UsageQuery, project_id: str | None
) -> tuple[Period, Sequence[Instance]]:
    period = period_of(query.start, query.end)
    size = page_size(query.limit, api.conf.api.max_limit)
    with api.db.read() as session:
        rows = usages.instances_of_period(session, period.start, period.end, project_id, query.marker, size)
        session.expunge_all()
    return period, rows


def period_of(start: str | None, end: str | None) -> Period:
    """`start` and `end` are now if they are missing. A time that has not come counts as now.

    Raises BadRequest if a text is not a time, or if the start is not before the end.
    """
    now = times.now()
    begin = _parsed(start) if start else now
    until = _parsed(end) if end else now
    if begin > until or (begin == until and (start or end)):
        raise errors.BadRequest("Invalid start time. The start time cannot occur after the end time.")
    return Period(min(begin, now), min(until, now), now)


def _parsed(text: str) -> datetime:
    at = times.with_form(text, *_FORMATS)
    if at is None:
        raise errors.BadRequest("Invalid datetime string: Datetime is in invalid format")
    return at


def _links(
    api: ComputeApiCollaborators, call: Call, query: UsageQuery, rows: Sequence[Instance], key: str
) -> dict[str, tuple[links.Link, ...]]:
    """Returns the links to the next page. As in Nova, only a full page has one."""
    paged = call.since("2.40") or call.shows_all
    full = links.is_full(rows, page_size(query.limit, api.conf.api.max_limit))
    return {key: links.next_page(call, rows[-1].uuid)} if paged and full else {}


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/os-simple-tenant-usage",
        rule="os_compute_api:os-simple-tenant-usage:list",
        handler=index,
        answer={"tenant_usages": list[TenantUsage], "tenant_usages_links?": list[Link]},
        query=UsagesQuery,
    ),
    Route(
        method="GET",
        path="/v2.1/os-simple-tenant-usage/{project_id}",
        rule="os_compute_api:os-simple-tenant-usage:show",
        handler=show,
        query=UsageQuery,
    ),
)
