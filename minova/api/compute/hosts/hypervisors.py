"""`/os-hypervisors`: the nodes and their usage."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.hosts import uptimes
from minova.api.http import links
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.links import Link
from minova.api.http.microversions import History, added, changed, removed
from minova.api.http.structs import Boolean, PageQuery, is_true, page_size
from minova.codecs import parse_json
from minova.db import models
from minova.db.api_queries import services as read_services
from minova.uuids import canonical_uuid

MAX_NAME = 255
UP = "up"


class NotKnown(errors.MinovaError):
    code = 501


class HypervisorsQuery(PageQuery, frozen=True, kw_only=True):
    """`hypervisor_hostname_pattern`: a part of the name; paging is refused with it.
    `marker`: the id of the last item of the page before.
    """

    hypervisor_hostname_pattern: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] | None = None
    with_servers: Boolean = False


class HypervisorQuery(msgspec.Struct, frozen=True, kw_only=True):
    with_servers: Boolean = False


class HypervisorServer(msgspec.Struct, frozen=True, kw_only=True):
    uuid: str
    name: str


class HypervisorBrief(msgspec.Struct, frozen=True, kw_only=True):
    """`servers`: only if requested."""

    id: int | str
    hypervisor_hostname: str
    state: str
    status: str
    servers: tuple[HypervisorServer, ...] | msgspec.UnsetType = msgspec.UNSET


class HypervisorUptime(HypervisorBrief, frozen=True, kw_only=True):
    uptime: str


class OfService(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    id: int | str | None
    disabled_reason: str | None


class HypervisorView(HypervisorBrief, frozen=True, kw_only=True):
    """Memory in MB, disks in GB. `cpu_info` is JSON in a string until 2.27. `uptime`: what the host answers; null if it is
    down or cannot answer.
    """

    host_ip: str | None
    hypervisor_type: str
    hypervisor_version: int
    uptime: str | None = None
    cpu_info: Any
    vcpus: int
    vcpus_used: int
    memory_mb: int
    memory_mb_used: int
    free_ram_mb: int
    local_gb: int
    local_gb_used: int
    free_disk_gb: int
    disk_available_least: int | None
    current_workload: int
    running_vms: int
    service: OfService


_OTHER = ("id", "state", "status", "service", "servers", "uptime", "cpu_info")
_SAME = tuple(field for field in HypervisorView.__struct_fields__ if field not in _OTHER)
# Servers by host.
Servers: TypeAlias = dict[str, list[HypervisorServer]]
BY_UUID = "2.53"
QUERY_HISTORY = History(
    HypervisorsQuery,
    added("2.33", "limit", "marker"),
    added("2.53", "hypervisor_hostname_pattern", "with_servers"),
    changed("2.53", "marker", note="is a UUID"),
    strict_since=(2, 53),
)
ASKED_OF_ONE = History(HypervisorQuery, added("2.53", "with_servers"), strict_since=(2, 53))
ANSWER_HISTORY = History(
    HypervisorView,
    changed("2.28", "cpu_info", note="is an object"),
    changed("2.53", "id", "service", note="ids are UUIDs"),
    added("2.53", "servers"),
    changed("2.75", "servers", note="also if there are none"),
    removed("2.88", "cpu_info", "vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "free_ram_mb"),
    removed(
        "2.88", "local_gb", "local_gb_used", "free_disk_gb", "disk_available_least", "current_workload", "running_vms"
    ),
    added("2.88", "uptime"),
)


def list_hypervisors(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return _page(api, call, brief)


def list_detail(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    answer = _page(api, call, view)
    return answer | {"hypervisors": _with_uptimes(api, call, answer["hypervisors"])}


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        node = find(call, session)
        services = read_services.services(session, api.conf.service_down_time, api.db)
        servers = _servers(session, [node]) if is_true(call.query.with_servers) else None
    (hypervisor,) = _with_uptimes(api, call, [view(call, node, services, servers=servers)])
    return {"hypervisor": hypervisor}


def uptime(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Raises BadRequest if the service of the host is down, as Nova does, and NotKnown if it is of an older release."""
    with api.db.read() as session:
        node = find(call, session)
        services = read_services.services(session, api.conf.service_down_time, api.db)
    answer = brief(call, node, services)
    if answer.state != UP:
        raise errors.BadRequest(f"Compute service of {node.host} is unavailable at this time.")
    try:
        text = api.compute(node.host).get_host_uptime(call.ctx)
    except errors.PeerTooOld:
        raise NotKnown("The compute service of this host is of an older release.") from None
    return {"hypervisor": HypervisorUptime(**msgspec.structs.asdict(answer), uptime=text)}


def _with_uptimes(
    api: ComputeApiCollaborators, call: Call, shown: Sequence[HypervisorView]
) -> Sequence[HypervisorView]:
    """Asks the hosts that are up, without a connection to the database, if answers of this microversion have it."""
    if not ANSWER_HISTORY.has("uptime", call.version, everything=call.shows_all):
        return shown
    uptime_by_host = uptimes.ask(api, call.ctx, {each.service.host for each in shown if each.state == UP})
    return [msgspec.structs.replace(each, uptime=uptime_by_host.get(each.service.host)) for each in shown]


def find(call: Call, session: Session) -> models.ComputeNode:
    """Finds the node by the id in the path.

    Raises NotFound if there is none, and from 2.53 on BadRequest if the id is no UUID.
    """
    hypervisor_id = call.path["hypervisor_id"]
    if call.since(BY_UUID):
        return _by_uuid(session, hypervisor_id)
    # Python accepts the digits of other alphabets, and longer numbers do not fit the database.
    is_id = hypervisor_id.isascii() and hypervisor_id.isdigit() and len(hypervisor_id) < 10
    node = read_services.node(session, int(hypervisor_id)) if is_id else None
    if node is None:
        raise errors.NotFound(f"Compute host {hypervisor_id} could not be found.")
    return node


def _by_uuid(session: Session, hypervisor_id: str) -> models.ComputeNode:
    uuid = canonical_uuid(hypervisor_id)
    if uuid is None:
        raise errors.BadRequest(f"Invalid uuid {hypervisor_id[:64]}")
    node = read_services.node_by_uuid(session, uuid)
    if node is None:
        raise errors.NotFound(f"Hypervisor with ID '{uuid}' could not be found.")
    return node


def search(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Until 2.52: lists the nodes whose name contains the text in the path. Raises NotFound if there are none."""
    with api.db.read() as session:
        nodes = _nodes_named(session, call.path["hypervisor_id"])
        return {"hypervisors": _briefs(api, call, session, nodes, brief)}


def servers_of(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """The same as `search`, with the servers of the nodes."""
    with api.db.read() as session:
        nodes = _nodes_named(session, call.path["hypervisor_id"])
        return {"hypervisors": _briefs(api, call, session, nodes, brief, with_servers=True)}


def _nodes_named(session: Session, pattern: str) -> Sequence[models.ComputeNode]:
    nodes = read_services.nodes_named(session, pattern) if 0 < len(pattern) <= MAX_NAME else ()
    if not nodes:
        raise errors.NotFound(f"No hypervisor matching '{pattern[:MAX_NAME]}' could be found.")
    return nodes


def statistics(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        return {"hypervisor_statistics": read_services.totals(session)}


def _page(api: ComputeApiCollaborators, call: Call, show_one: Any) -> dict[str, Any]:
    """Returns all nodes if the request has no limit and is older than 2.33: its clients do not know pages."""
    query: HypervisorsQuery = call.query
    with_servers = is_true(query.with_servers)
    paged = query.limit is not None or call.since("2.33")
    size = page_size(query.limit, api.conf.api.max_limit) if paged else None
    with api.db.read() as session:
        if query.hypervisor_hostname_pattern is not None:
            if query.limit is not None or query.marker is not None:
                raise errors.BadRequest(
                    "Paging over hypervisors with the hypervisor_hostname_pattern query parameter is not supported."
                )
            nodes = _nodes_named(session, query.hypervisor_hostname_pattern)
            return {"hypervisors": _briefs(api, call, session, nodes, show_one, with_servers)}
        after = _after(call, session, query)
        nodes = read_services.nodes(session, after, size)
        answer: dict[str, Any] = {"hypervisors": _briefs(api, call, session, nodes, show_one, with_servers)}
    if size is not None and links.is_full(nodes, size):
        answer["hypervisors_links"] = links.next_page(call, str(answer["hypervisors"][-1].id))
    return answer


def _briefs(
    api: ComputeApiCollaborators,
    call: Call,
    session: Session,
    nodes: Sequence[models.ComputeNode],
    show_one: Any,
    with_servers: bool = False,
) -> list[HypervisorBrief]:
    services = read_services.services(session, api.conf.service_down_time, api.db)
    by_host = {row.host: row for row in services.rows if row.topic == "compute"}
    servers = _servers(session, nodes) if with_servers else None
    return [show_one(call, node, services, by_host, servers) for node in nodes]


def _servers(session: Session, nodes: Sequence[models.ComputeNode]) -> Servers:
    """Returns the servers of the nodes' hosts. As in Nova, servers count for the host, not for the node."""
    servers_by_host: Servers = {}
    for host, uuid, name in read_services.servers_of_hosts(session, {node.host for node in nodes}):
        servers_by_host.setdefault(host, []).append(HypervisorServer(uuid=uuid, name=name))
    return servers_by_host


def _after(call: Call, session: Session, query: HypervisorsQuery) -> int:
    if query.marker is not None and call.since(BY_UUID):
        node = read_services.node_by_uuid(session, query.marker) if len(query.marker) <= 36 else None
        if node is None:
            raise errors.BadRequest(f"marker [{query.marker[:64]}] not found")
        return node.id
    marker = query.marker or "0"
    if not (marker.isascii() and marker.isdigit() and len(marker) < 10):
        raise errors.BadRequest(f"marker [{marker}] not found")
    return int(marker)


def _of(
    node: models.ComputeNode,
    services: read_services.ServiceLiveness,
    by_host: dict[str, read_services.ServiceRow] | None,
) -> read_services.ServiceRow | None:
    if by_host is not None:
        return by_host.get(node.host)
    return next((row for row in services.rows if row.host == node.host and row.topic == "compute"), None)


def brief(
    call: Call,
    node: models.ComputeNode,
    services: read_services.ServiceLiveness,
    by_host: dict[str, read_services.ServiceRow] | None = None,
    servers: Servers | None = None,
) -> HypervisorBrief:
    service = _of(node, services, by_host)
    return HypervisorBrief(
        id=_id(call, node),
        hypervisor_hostname=node.hypervisor_hostname,
        servers=_servers_on(call, node, servers),
        **_state(service, services),
    )


def view(
    call: Call,
    node: models.ComputeNode,
    services: read_services.ServiceLiveness,
    by_host: dict[str, read_services.ServiceRow] | None = None,
    servers: Servers | None = None,
) -> HypervisorView:
    service = _of(node, services, by_host)
    complete = HypervisorView(
        **{name: getattr(node, name) for name in _SAME},
        **_state(service, services),
        id=_id(call, node),
        cpu_info=_cpu_info(node) if call.since("2.28") else node.cpu_info,
        servers=_servers_on(call, node, servers),
        service=OfService(
            host=node.host,
            id=None if service is None else _id(call, service),
            disabled_reason=None if service is None else service.disabled_reason,
        ),
    )
    return call.shown(ANSWER_HISTORY, complete)


def _id(call: Call, row: models.ComputeNode | read_services.ServiceRow) -> int | str:
    return row.uuid if call.since(BY_UUID) else row.id


def _cpu_info(node: models.ComputeNode) -> Any:
    """Returns {} if the driver has stored invalid JSON."""
    try:
        return parse_json(node.cpu_info.encode()) if node.cpu_info else {}
    except ValueError:
        return {}


def _servers_on(
    call: Call, node: models.ComputeNode, servers: Servers | None
) -> tuple[HypervisorServer, ...] | msgspec.UnsetType:
    if servers is None:
        return msgspec.UNSET
    host_servers = tuple(servers.get(node.host, ()))
    return host_servers if host_servers or call.since("2.75") else msgspec.UNSET


def _state(service: read_services.ServiceRow | None, services: read_services.ServiceLiveness) -> dict[str, Any]:
    up = service is not None and services.is_up(service)
    enabled = service is not None and not service.disabled
    return {"state": UP if up else "down", "status": "enabled" if enabled else "disabled"}


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/os-hypervisors",
        rule="os_compute_api:os-hypervisors:list",
        handler=list_hypervisors,
        answer={"hypervisors": list[HypervisorBrief], "hypervisors_links?": list[Link]},
        query=HypervisorsQuery,
    ),
    Route(
        method="GET",
        path="/v2.1/os-hypervisors/detail",
        rule="os_compute_api:os-hypervisors:list-detail",
        handler=list_detail,
        answer={"hypervisors": list[HypervisorView], "hypervisors_links?": list[Link]},
        query=HypervisorsQuery,
    ),
    Route(
        method="GET",
        path="/v2.1/os-hypervisors/statistics",
        rule="os_compute_api:os-hypervisors:statistics",
        handler=statistics,
        answer={"hypervisor_statistics": dict[str, int]},
        until=(2, 87),
    ),
    Route(
        method="GET",
        path="/v2.1/os-hypervisors/{hypervisor_id}",
        rule="os_compute_api:os-hypervisors:show",
        handler=show,
        answer={"hypervisor": HypervisorView},
        query=HypervisorQuery,
    ),
    Route(
        method="GET",
        path="/v2.1/os-hypervisors/{hypervisor_id}/search",
        rule="os_compute_api:os-hypervisors:search",
        handler=search,
        answer={"hypervisors": list[HypervisorBrief]},
        until=(2, 52),
    ),
    Route(
        method="GET",
        path="/v2.1/os-hypervisors/{hypervisor_id}/servers",
        rule="os_compute_api:os-hypervisors:servers",
        handler=servers_of,
        answer={"hypervisors": list[HypervisorBrief]},
        until=(2, 52),
    ),
    Route(
        method="GET",
        path="/v2.1/os-hypervisors/{hypervisor_id}/uptime",
        rule="os_compute_api:os-hypervisors:uptime",
        handler=uptime,
        answer={"hypervisor": HypervisorUptime},
        until=(2, 87),
    ),
)
