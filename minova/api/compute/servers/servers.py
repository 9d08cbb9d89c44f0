"""`/servers`: list, show, update, delete. `create` has a module of its own."""

from collections.abc import Collection, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers import filters
from minova.api.compute.servers.filters import ServersQuery
from minova.api.compute.servers.networks import neutron_servers
from minova.api.compute.servers.networks.requested import access_address
from minova.api.compute.servers.view import (
    ANSWER_HISTORY,
    HOST_STATUS,
    ServerBrief,
    ServerForm,
    ServerParts,
    ServerView,
    brief,
    shows_fault,
    view,
)
from minova.api.http import links, names
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.links import Link
from minova.api.http.microversions import History, added, changed
from minova.api.http.structs import page_size
from minova.api.policies.enforcer import Target
from minova.db.api_queries import availability_zones, instances
from minova.db.api_queries import services as read_services
from minova.db.api_queries.instances import InstanceRow
from minova.db.catalogue import server_groups
from minova.db.networks import security_groups, vifs
from minova.db.servers import request_specs, tags
from minova.objects.catalogue.disk_config import DiskConfig
from minova.objects.guests.guest_metadata import PASSWORD
from minova.objects.requests.request_spec import RequestSpec
from minova.objects.servers.server_changes import ServerChanges


def list_servers(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        rows, full = _rows(api, call, session)
    form = ServerForm(call)
    return _page(call, [brief(form, row) for row in rows], rows, full)


def list_detail(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        rows, full = _rows(api, call, session)
        views = _views(api, call, session, rows)
        in_neutron = neutron_servers.ports_asked(api, session, [row.uuid for row in rows])
    return _page(call, _with_groups(api, call, views, in_neutron), rows, full)


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        row = find(call, session)
        views = _views(api, call, session, [row], with_groups=True)
        in_neutron = neutron_servers.ports_asked(api, session, [row.uuid])
    return {"server": _with_groups(api, call, views, in_neutron)[0]}


def delete(api: ComputeApiCollaborators, call: Call) -> None:
    with api.db.read() as session:
        row = find(call, session)
    # Sent only if the server has a lock: a conductor that is too old for the argument knows no locks.
    override = row.locked_by is not None and call.ctx.is_admin
    api.conductor.delete_server(call.ctx, instance_uuid=row.uuid, override_lock=override)


def force_delete(api: ComputeApiCollaborators, call: Call, arguments: Any) -> None:
    """Deletes the server even if it could be restored. As in Nova, the value of the action's key is ignored."""
    with api.db.read() as session:
        row = find(call, session)
    override = row.locked_by is not None and call.ctx.is_admin
    api.conductor.delete_server(call.ctx, instance_uuid=row.uuid, override_lock=override, force=True)
    call.response.status = 202


Text = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Description = Annotated[str, msgspec.Meta(max_length=255, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]*$")]


class ChangedServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Addresses may be empty."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    access_ipv4: str | msgspec.UnsetType | None = msgspec.field(name="accessIPv4", default=msgspec.UNSET)
    access_ipv6: str | msgspec.UnsetType | None = msgspec.field(name="accessIPv6", default=msgspec.UNSET)
    disk_config: DiskConfig | msgspec.UnsetType = msgspec.field(name="OS-DCF:diskConfig", default=msgspec.UNSET)
    description: Description | msgspec.UnsetType | None = msgspec.UNSET
    hostname: str | msgspec.UnsetType = msgspec.UNSET
    pinned_availability_zone: Text | msgspec.UnsetType | None = msgspec.UNSET


BODY_HISTORY = History(
    ChangedServer,
    added("2.19", "description"),
    added("2.90", "hostname"),
    changed("2.94", "hostname", note="may be a full name with dots"),
    added("2.104", "pinned_availability_zone"),
)


class UpdateServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    server: ChangedServer


# From this version on, the answer to an update has these fields.
WHOLE_ANSWER = "2.75"
SHOWN_LATER = (
    "availability_zone",
    "config_drive",
    "key_name",
    "launched_at",
    "terminated_at",
    "task_state",
    "vm_state",
    "power_state",
    "volumes_attached",
    "host",
    "node",
    "instance_name",
    "hostname",
    "reservation_id",
    "launch_index",
    "kernel_id",
    "ramdisk_id",
    "root_device_name",
    "user_data",
    "host_status",
    "security_groups",
)


def update(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    body: ChangedServer = call.body.server
    with api.db.read() as session:
        row = find(call, session)
    changes = ServerChanges(
        name=None if isinstance(body.name, msgspec.UnsetType) else names.checked("Server name", body.name),
        access_ip_v4=_changed_address(4, body.access_ipv4),
        access_ip_v6=_changed_address(6, body.access_ipv6),
        description=body.description,
        hostname=None
        if isinstance(body.hostname, msgspec.UnsetType)
        else names.checked_hostname(body.hostname, dots=call.since("2.94")),
        pinned_zone=body.pinned_availability_zone,
        disk_config=None if isinstance(body.disk_config, msgspec.UnsetType) else body.disk_config,
    )
    api.conductor.update_server(call.ctx, instance_uuid=row.uuid, changes=changes, override_lock=call.ctx.is_admin)
    return {"server": shown_after_change(api, call)}


def shown_after_change(api: ComputeApiCollaborators, call: Call) -> ServerView:
    """Returns the server in the answer to an update or a rebuild. Before 2.75 it has fewer fields."""
    is_whole = call.since(WHOLE_ANSWER) or call.shows_all
    with api.db.read() as session:
        row = find(call, session)
        views = _views(api, call, session, [row], with_groups=True)
        in_neutron = neutron_servers.ports_asked(api, session, [row.uuid]) if is_whole else {}
    if is_whole:
        return _with_groups(api, call, views, in_neutron)[0]
    addresses = _without_types(views[0].addresses)
    return msgspec.structs.replace(views[0], addresses=addresses, **dict.fromkeys(SHOWN_LATER, msgspec.UNSET))


def _changed_address(version: int, text: str | msgspec.UnsetType | None) -> str | None:
    """Returns None if the address stays as it is."""
    return None if isinstance(text, msgspec.UnsetType) else access_address(version, text or "")


def addresses(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        return {"addresses": _without_types(_views(api, call, session, [find(call, session)])[0].addresses)}


def _without_types(shown: dict[str, Any]) -> dict[str, Any]:
    """Returns the addresses without type and MAC address, which Nova shows only with a whole server."""
    return {
        label: [{"addr": each["addr"], "version": each["version"]} for each in entries]
        for label, entries in shown.items()
    }


def addresses_of_network(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    label = call.path["network"]
    addresses_by_network = addresses(api, call)["addresses"]
    if label not in addresses_by_network:
        raise errors.NotFound("Instance is not a member of specified network")
    return {label: addresses_by_network[label]}


def show_password(api: ComputeApiCollaborators, call: Call) -> dict[str, str]:
    """Returns the password that the guest has stored with the metadata service, encrypted with the server's key."""
    with api.db.read() as session:
        row = find(call, session)
        return {"password": str(row.system_metadata.get(PASSWORD, ""))}


def clear_password(api: ComputeApiCollaborators, call: Call) -> None:
    with api.db.read() as session:
        row = find(call, session)
    api.conductor.clear_server_password(call.ctx, instance_uuid=row.uuid)


def find(call: Call, session: Session, *, deleted: bool = False) -> InstanceRow:
    """Returns the server in the path. `deleted`: finds deleted servers, too.

    Raises NotFound also if the caller may not see the server.
    Raises Forbidden if the policy of the route does not permit it for this server.
    """
    server_id = call.path["server_id"]
    row = None
    if len(server_id) <= 36:
        project_id = None if call.ctx.is_admin else call.ctx.project_id
        row = instances.instance(session, server_id, project_id, deleted=deleted)
    if row is None:
        raise errors.NotFound(f"Instance {server_id[:255]} could not be found.")
    call.require_for(Target(project_id=row.project_id, user_id=row.user_id))
    return row


class ServersPage(NamedTuple):
    """`full`: another page may follow."""

    rows: Sequence[InstanceRow] = ()
    full: bool = False


def _rows(api: ComputeApiCollaborators, call: Call, session: Session) -> ServersPage:
    query: filters.ServersQuery = call.query
    size = page_size(query.limit, api.conf.api.max_limit)
    filters.check_names(call.request.params)
    filters.check_status(call, query)
    instance_filter = filters.instance_filter(query, call.ctx.project_id, filters.rights_of(call))
    order = filters.order(query, is_admin=call.ctx.is_admin, keys=filters.sort_keys_of(call))
    if instance_filter is None or size == 0:
        return ServersPage()
    try:
        zone = api.conf.scheduler.default_availability_zone
        rows = instances.instances(session, instance_filter, order, query.marker or None, size, zone)
    except LookupError:
        raise errors.BadRequest(f"marker [{query.marker}] not found") from None
    return ServersPage(rows, full=links.is_full(rows, size))


def _page(call: Call, shown: list[Any], rows: Sequence[InstanceRow], full: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {"servers": shown}
    if full:
        answer["servers_links"] = links.next_page(call, rows[-1].uuid)
    return answer


def _views(
    api: ComputeApiCollaborators,
    call: Call,
    session: Session,
    rows: Sequence[InstanceRow],
    *,
    with_groups: bool = False,
) -> list[ServerView]:
    """Returns the servers for an answer. Does not read what the microversion does not show.

    `with_groups`: read server groups, which lists do not show.
    """
    faults = instances.last_faults(session, [row.uuid for row in rows if shows_fault(row)])
    hosts = {row.host for row in rows if row.host is not None}
    zones = availability_zones.by_host(session, {row.host for row in rows if row.host and row.related.aggregates})
    default = api.conf.scheduler.default_availability_zone
    interfaces = vifs.of_instances(
        session,
        [row.uuid for row in rows if row.related.ports],
        neutron=[row.uuid for row in rows if row.related.neutron_ports],
    )
    secured = security_groups.names_of_instances(session, interfaces)
    tagged = [row.uuid for row in rows if row.related.tags]
    tags_by_server = tags.of_instances(session, tagged) if call.has(ANSWER_HISTORY, "tags") else {}
    host_status = _host_statuses(api, call, session, hosts)
    groups = (
        server_groups.uuids_of_instances(session, [row.uuid for row in rows if row.related.groups])
        if with_groups and call.has(ANSWER_HISTORY, "server_groups")
        else None
    )
    form = ServerForm(call)
    specs: dict[str, RequestSpec] = {}
    if form.shows_request:
        stored = request_specs.load(session, {row.reservation_id for row in rows})
        specs = {reservation_id: stored_spec.spec for reservation_id, stored_spec in stored.items()}
    return [
        view(
            form,
            row,
            ServerParts(
                zone=zones.get(row.host or "", default),
                fault=faults.get(row.uuid),
                vifs=interfaces.get(row.uuid, ()),
                security_groups=secured.get(row.uuid, ()),
                tags=tags_by_server.get(row.uuid, ()),
                host_status=msgspec.UNSET if host_status is None else host_status.get(row.host or "", _unknown(row)),
                groups=msgspec.UNSET if groups is None else tuple(groups.get(row.uuid, ())),
                image=request_specs.image_of_server(row.image, specs.get(row.reservation_id)),
                spec=specs.get(row.reservation_id),
            ),
        )
        for row in rows
    ]


def _with_groups(
    api: ComputeApiCollaborators, call: Call, shown: Sequence[ServerView], in_neutron: neutron_servers.Ports
) -> list[ServerView]:
    """Adds the security groups of the ports in Neutron."""
    names = neutron_servers.group_names(api, call, in_neutron)
    return [_with(each, names[each.id]) if names.get(each.id) else each for each in shown]


def _with(shown: ServerView, names: Sequence[str]) -> ServerView:
    own = () if isinstance(shown.security_groups, msgspec.UnsetType) else shown.security_groups
    return msgspec.structs.replace(shown, security_groups=(*own, *({"name": name} for name in names)))


def _unknown(row: InstanceRow) -> str:
    """Returns the status of a host without a service; empty if the server has no host."""
    return "UNKNOWN" if row.host else ""


def _host_statuses(
    api: ComputeApiCollaborators, call: Call, session: Session, hosts: Collection[str]
) -> dict[str, str] | None:
    """Returns the statuses of compute hosts, among them these; None if the caller does not see them."""
    if not (call.has(ANSWER_HISTORY, "host_status") and call.permits(HOST_STATUS)):
        return None
    if not hosts:
        return {}
    services = read_services.services(session, api.conf.service_down_time, api.db)
    statuses = {}
    for service in services.rows:
        if service.topic == "compute":
            up = "UP" if services.is_up(service) else "UNKNOWN"
            statuses[service.host] = "DOWN" if service.forced_down else "MAINTENANCE" if service.disabled else up
    return statuses


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/servers",
        rule="os_compute_api:servers:index",
        handler=list_servers,
        answer={"servers": list[ServerBrief], "servers_links?": list[Link]},
        query=ServersQuery,
    ),
    Route(
        method="GET",
        path="/v2.1/servers/detail",
        rule="os_compute_api:servers:detail",
        handler=list_detail,
        answer={"servers": list[ServerView], "servers_links?": list[Link]},
        query=ServersQuery,
    ),
    Route(
        method="GET",
        path="/v2.1/servers/{server_id}",
        rule="os_compute_api:servers:show",
        handler=show,
        answer={"server": ServerView},
    ),
    Route(
        method="PUT",
        path="/v2.1/servers/{server_id}",
        rule="os_compute_api:servers:update",
        handler=update,
        answer={"server": ServerView},
        body=UpdateServer,
    ),
    Route(
        method="DELETE",
        path="/v2.1/servers/{server_id}",
        rule="os_compute_api:servers:delete",
        handler=delete,
        status=204,
    ),
    Route(
        method="GET",
        path="/v2.1/servers/{server_id}/ips",
        rule="os_compute_api:ips:index",
        handler=addresses,
        answer={"addresses": dict[str, list[dict[str, Any]]]},
    ),
    Route(
        method="GET",
        path="/v2.1/servers/{server_id}/ips/{network}",
        rule="os_compute_api:ips:show",
        handler=addresses_of_network,
    ),
    Route(
        method="GET",
        path="/v2.1/servers/{server_id}/os-server-password",
        rule="os_compute_api:os-server-password:show",
        handler=show_password,
        answer={"password": str},
    ),
    Route(
        method="DELETE",
        path="/v2.1/servers/{server_id}/os-server-password",
        rule="os_compute_api:os-server-password:clear",
        handler=clear_password,
        status=204,
    ),
)
