"""`/os-hosts`, until 2.42: hosts and their usage. `/os-hypervisors` and `/os-services` replace it."""

from typing import Any, Literal

import msgspec

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.hosts import services
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.db.api_queries import availability_zones
from minova.db.api_queries import services as read_services
from minova.objects.catalogue.flavor import Flavor

# Nova accepts these spellings.
Word = Literal["enable", "disable", "Enable", "Disable", "ENABLE", "DISABLE"]


class NotSupported(errors.MinovaError):
    code = 501


class HostsQuery(msgspec.Struct, frozen=True, kw_only=True):
    zone: str | None = None


class HostChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`status`: whether the host's compute gets new servers. At least one of the two fields is required."""

    status: Word | None = None
    maintenance_mode: Word | None = None


class HostBrief(msgspec.Struct, frozen=True, kw_only=True):
    """`service`: compute, conductor or scheduler. Each has an entry of its own."""

    host_name: str
    service: str
    zone: str


class Amounts(msgspec.Struct, frozen=True, kw_only=True):
    """In MB and GB. `project`: the id of a project, or `(total)`, `(used_now)` or `(used_max)`, the sum of the flavors
    of all servers on the host.
    """

    host: str
    project: str
    cpu: int
    memory_mb: int
    disk_gb: int


class HostResource(msgspec.Struct, frozen=True, kw_only=True):
    resource: Amounts


def list_hosts(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Lists the hosts of enabled services. An empty `zone` does not filter."""
    query: HostsQuery = call.query
    with api.db.read() as session:
        rows = read_services.services(session, api.conf.service_down_time, api.db).rows
        zones = availability_zones.by_host(session)
    default = api.conf.scheduler.default_availability_zone
    hosts = [
        HostBrief(host_name=row.host, service=row.topic, zone=services.zone_of(row, zones, default))
        for row in rows
        if not row.disabled
    ]
    return {"hosts": [host for host in hosts if not query.zone or host.zone == query.zone]}


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    host = _service(api, call).host
    with api.db.read() as session:
        node = read_services.first_node_of(session, host)
        flavors = read_services.flavors_on(session, host)
    if node is None:
        raise _not_found(host)
    projects: dict[str, list[Flavor]] = {}
    for project_id, flavor in flavors:
        projects.setdefault(project_id, []).append(flavor)
    total = (node.vcpus, node.memory_mb, node.local_gb)
    used = (node.vcpus_used, node.memory_mb_used, node.local_gb_used)
    amounts = {"(total)": total, "(used_now)": used, "(used_max)": _sums([flavor for _, flavor in flavors])}
    amounts |= {project_id: _sums(its) for project_id, its in projects.items()}
    return {"host": [_resource(host, project, *sums) for project, sums in amounts.items()]}


def update(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Raises BadRequest if the body has no change; NotSupported for maintenance mode, as Nova with libvirt."""
    changes: HostChanges = call.body
    if changes.status is None and changes.maintenance_mode is None:
        raise errors.BadRequest("Invalid input for field/attribute body. 'status' or 'maintenance_mode' is required")
    service = _service(api, call)
    if changes.maintenance_mode is not None:
        raise _not_supported()
    enabled = str(changes.status).lower() == "enable"
    api.conductor.update_service(call.ctx, service_uuid=service.uuid, disabled=not enabled)
    return {"host": service.host, "status": "enabled" if enabled else "disabled"}


def switch_power(api: ComputeApiCollaborators, call: Call) -> None:
    """`startup`, `shutdown` and `reboot` of a host. Raises NotSupported, as Nova with libvirt."""
    _service(api, call)
    raise _not_supported()


def _not_supported() -> NotSupported:
    return NotSupported("The requested functionality is not supported.")


def _service(api: ComputeApiCollaborators, call: Call) -> read_services.ServiceRow:
    """Returns the compute service of the host. Raises NotFound if there is none."""
    host = call.path["host_name"]
    with api.db.read() as session:
        rows = read_services.services(session, api.conf.service_down_time, api.db).rows
    service = next((row for row in rows if row.host == host and row.topic == "compute"), None)
    if service is None:
        raise _not_found(host)
    return service


def _not_found(host: str) -> errors.NotFound:
    return errors.NotFound(f"Compute host {host[:255]} could not be found.")


def _sums(flavors: list[Flavor]) -> tuple[int, int, int]:
    return (
        sum(flavor.vcpus for flavor in flavors),
        sum(flavor.memory_mb for flavor in flavors),
        sum(flavor.root_gb + flavor.ephemeral_gb for flavor in flavors),
    )


def _resource(host: str, project: str, cpu: int, memory_mb: int, disk_gb: int) -> HostResource:
    amounts = Amounts(host=host, project=project, cpu=cpu, memory_mb=memory_mb, disk_gb=disk_gb)
    return HostResource(resource=amounts)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/os-hosts",
        rule="os_compute_api:os-hosts:list",
        handler=list_hosts,
        answer={"hosts": list[HostBrief]},
        query=HostsQuery,
        until=(2, 42),
    ),
    Route(
        method="GET",
        path="/v2.1/os-hosts/{host_name}",
        rule="os_compute_api:os-hosts:show",
        handler=show,
        answer={"host": list[HostResource]},
        until=(2, 42),
    ),
    Route(
        method="PUT",
        path="/v2.1/os-hosts/{host_name}",
        rule="os_compute_api:os-hosts:update",
        handler=update,
        body=HostChanges,
        set_by_handler={501: ""},
        until=(2, 42),
    ),
    *(
        Route(
            method="GET",
            path=f"/v2.1/os-hosts/{{host_name}}/{action}",
            rule=f"os_compute_api:os-hosts:{rule}",
            handler=switch_power,
            set_by_handler={501: ""},
            until=(2, 42),
        )
        for action, rule in (("startup", "start"), ("shutdown", "shutdown"), ("reboot", "reboot"))
    ),
)
