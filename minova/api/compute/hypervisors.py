"""`/os-hypervisors`: the nodes, and what is used of them."""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import Collaborators
from minova.api.http import links
from minova.api.http.call import Call
from minova.api.http.structs import Page, page_size
from minova.db import models
from minova.db.api_queries import services as read_services


class NotKnown(errors.MinovaError):
    code = 501


class HypervisorBrief(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    hypervisor_hostname: str
    state: str
    status: str


class OfService(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    id: int | None
    disabled_reason: str | None


class HypervisorView(HypervisorBrief, frozen=True, kw_only=True):
    """Memory in MB, disks in GB; `cpu_info` is JSON in a string, as before microversion 2.28."""

    host_ip: str | None
    hypervisor_type: str
    hypervisor_version: int
    cpu_info: str
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


_SAME = tuple(field for field in HypervisorView.__struct_fields__ if field not in ("state", "status", "service"))


def list_hypervisors(api: Collaborators, call: Call) -> dict[str, Any]:
    return _page(api, call, brief)


def list_detail(api: Collaborators, call: Call) -> dict[str, Any]:
    return _page(api, call, view)


def show(api: Collaborators, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        node = find(call, session)
        services = read_services.services(session, api.conf.service_down_time, api.db)
    return {"hypervisor": view(node, services)}


def uptime(api: Collaborators, call: Call) -> None:
    """As Nova answers where the driver does not know it: 501, on which clients show the rest."""
    with api.db.read() as session:
        find(call, session)
    raise NotKnown("The uptime of hypervisors is not served.")


def find(call: Call, session: Session) -> models.ComputeNode:
    """By its id in the path. NotFound: there is none."""
    wanted = call.path["hypervisor_id"]
    # Digits of other alphabets are digits to Python, and longer numbers are too long for the database.
    is_id = wanted.isascii() and wanted.isdigit() and len(wanted) < 10
    node = read_services.node(session, int(wanted)) if is_id else None
    if node is None:
        raise errors.NotFound(f"Compute host {wanted} could not be found.")
    return node


def statistics(api: Collaborators, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        return {"hypervisor_statistics": read_services.totals(session)}


def _page(api: Collaborators, call: Call, show_one: Any) -> dict[str, Any]:
    """All of them when no limit is asked for: clients of 2.1 know of no pages here."""
    query: Page = call.query
    size = None if query.limit is None else page_size(query.limit, api.conf.api.max_limit)
    with api.db.read() as session:
        nodes: Sequence[models.ComputeNode] = read_services.nodes(
            session, _after(query), None if size is None else size + 1
        )
        services = read_services.services(session, api.conf.service_down_time, api.db)
    shown = nodes if size is None else nodes[:size]
    by_host = {row.host: row for row in services.rows if row.topic == "compute"}
    answer: dict[str, Any] = {"hypervisors": [show_one(node, services, by_host) for node in shown]}
    if shown and len(shown) < len(nodes):
        answer["hypervisors_links"] = links.next_page(call, str(shown[-1].id))
    return answer


def _after(query: Page) -> int:
    marker = query.marker or "0"
    if not (marker.isascii() and marker.isdigit() and len(marker) < 10):
        raise errors.BadRequest(f"marker [{marker}] not found")
    return int(marker)


def _of(
    node: models.ComputeNode, services: read_services.Services, by_host: dict[str, read_services.ServiceRow] | None
) -> read_services.ServiceRow | None:
    if by_host is not None:
        return by_host.get(node.host)
    return next((row for row in services.rows if row.host == node.host and row.topic == "compute"), None)


def brief(
    node: models.ComputeNode,
    services: read_services.Services,
    by_host: dict[str, read_services.ServiceRow] | None = None,
) -> HypervisorBrief:
    service = _of(node, services, by_host)
    return HypervisorBrief(id=node.id, hypervisor_hostname=node.hypervisor_hostname, **_state(service, services))


def view(
    node: models.ComputeNode,
    services: read_services.Services,
    by_host: dict[str, read_services.ServiceRow] | None = None,
) -> HypervisorView:
    service = _of(node, services, by_host)
    return HypervisorView(
        **{name: getattr(node, name) for name in _SAME},
        **_state(service, services),
        service=OfService(
            host=node.host,
            id=None if service is None else service.id,
            disabled_reason=None if service is None else service.disabled_reason,
        ),
    )


def _state(service: read_services.ServiceRow | None, services: read_services.Services) -> dict[str, Any]:
    up = service is not None and services.is_up(service)
    enabled = service is not None and not service.disabled
    return {"state": "up" if up else "down", "status": "enabled" if enabled else "disabled"}
