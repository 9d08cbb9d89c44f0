"""The security groups of a server are those of its ports. `addSecurityGroup` and `removeSecurityGroup` change all its
ports.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers import servers
from minova.api.compute.servers.networks import neutron, neutron_servers
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.codecs import Decoder
from minova.db.api_queries.instances import InstanceRow
from minova.db.networks import ports, security_groups
from minova.objects.network.network import DEFAULT_GROUP, Port, SecurityGroup, SecurityGroupRule
from minova.races import CHANGED, repeat_lost

POLICIES = {
    "addSecurityGroup": "os_compute_api:os-security-groups:add",
    "removeSecurityGroup": "os_compute_api:os-security-groups:remove",
}
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
# How Nova shows a rule without ports: all ports of these protocols, and any type and code of all other protocols.
WITH_ALL_PORTS = frozenset({"tcp", "udp"})
ALL_PORTS, ANY_TYPE = (1, 65535), (-1, -1)
ANYWHERE = {"IPv4": "0.0.0.0/0", "IPv6": "::/0"}


class RequestedGroup(msgspec.Struct, frozen=True, kw_only=True):
    name: Name


_REQUESTED_GROUP = Decoder(RequestedGroup)


def list_groups(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """`GET /servers/{id}/os-security-groups`."""
    with api.db.read() as session:
        row = servers.find(call, session)
        ids = security_groups.of_instances(session, [row.uuid])
        groups = [group for group in (security_groups.find(session, uuid) for uuid in sorted(ids)) if group is not None]
        visible_groups = shown_groups(session, groups)
        in_neutron = neutron_servers.ports_asked(api, session, [row.uuid]).get(row.uuid)
    if in_neutron:
        visible_groups += _rule_views(*neutron_servers.groups_of(api, call, in_neutron))
    return {"security_groups": visible_groups}


def shown_groups(session: Session, groups: Sequence[SecurityGroup]) -> list[dict[str, Any]]:
    """Returns the groups with their ingress rules, in Nova's format."""
    remote = {rule.remote_group_id for group in groups for rule in group.rules if rule.remote_group_id is not None}
    return _rule_views(groups, {uuid: security_groups.find(session, uuid) for uuid in remote})


def _rule_views(groups: Sequence[SecurityGroup], sources: Mapping[str, SecurityGroup | None]) -> list[dict[str, Any]]:
    return [
        {
            "id": group.id,
            "name": group.name,
            "description": group.description,
            "tenant_id": group.project_id,
            "rules": [shown_rule(rule, sources) for rule in group.rules if rule.direction == "ingress"],
        }
        for group in groups
    ]


def shown_rule(rule: SecurityGroupRule, sources: Mapping[str, SecurityGroup | None]) -> dict[str, Any]:
    """Returns an ingress rule in Nova's format. `sources`: the groups that rules name, by id."""
    low, high = rule.port_range_min, rule.port_range_max
    if rule.protocol is not None and low is None and high is None:
        low, high = ALL_PORTS if rule.protocol in WITH_ALL_PORTS else ANY_TYPE
    group: dict[str, Any] = {}
    ip_range: dict[str, Any] = {}
    if rule.remote_group_id is None:
        ip_range = {"cidr": rule.remote_ip_prefix or ANYWHERE[rule.ethertype]}
    elif (source := sources.get(rule.remote_group_id)) is not None:
        group = {"name": source.name, "tenant_id": source.project_id}
    return {
        "id": rule.id,
        "parent_group_id": rule.security_group_id,
        "ip_protocol": rule.protocol,
        "from_port": low,
        "to_port": high,
        "group": group,
        "ip_range": ip_range,
    }


def add(api: ComputeApiCollaborators, call: Call, body: Any) -> None:
    _change(api, call, body, adding=True)


def remove(api: ComputeApiCollaborators, call: Call, body: Any) -> None:
    _change(api, call, body, adding=False)


ACTIONS = {"addSecurityGroup": add, "removeSecurityGroup": remove}


def _change(api: ComputeApiCollaborators, call: Call, body: Any, *, adding: bool) -> None:
    """Changes each port of the server and answers 202.

    Raises NotFound if there is no such group, or if the server does not have the group that is to be removed.
    """
    try:
        name = _REQUESTED_GROUP.from_builtins(body).name
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid input for the security group: {error}") from None
    with api.db.read() as session:
        row = servers.find(call, session)
        in_neutron = neutron_servers.ports_of(session, [row.uuid]).get(row.uuid, [])
        group_id = "" if in_neutron else _by_name(session, row, name)
        of_server = ports.of_instance(session, row.uuid)
    call.response.status = 202
    if in_neutron:
        neutron_servers.change_group(api, call, row, in_neutron, name, adding=adding)
        return
    if not of_server and adding:
        raise errors.BadRequest(f"Server {row.uuid} has no interface that could have a security group.")
    if not adding and not any(group_id in (port.security_groups or ()) for port in of_server):
        raise errors.NotFound(f"Security group {name} is not associated with the instance {row.uuid}")
    for port in of_server:
        if adding and not port.port_security_enabled:
            continue
        _write(api, call, port, group_id, adding=adding)


def _by_name(session: Session, row: InstanceRow, name: str) -> str:
    group_ids = security_groups.ids_of_names(session, row.project_id, [name]).get(name, [])
    if len(group_ids) > 1:
        raise errors.Conflict(f"Multiple security groups found matching '{name}'. Use an ID to be more specific.")
    if not group_ids:
        raise errors.NotFound(f"Security group {name} not found for project {row.project_id}")
    return group_ids[0]


def _write(api: ComputeApiCollaborators, call: Call, port: Port, group_id: str, *, adding: bool) -> None:
    current_port: Port | None = port

    def read_again(_: Exception) -> None:
        nonlocal current_port
        with api.db.read() as session:
            current_port = ports.find(session, port.id)

    def attempt() -> None:
        if current_port is None:
            return  # it was deleted together with its server
        groups = [each for each in current_port.security_groups or () if each != group_id]
        changed = msgspec.structs.replace(current_port, security_groups=(*groups, *([group_id] if adding else [])))
        api.conductor.update_port(call.ctx, port=changed, fixed_ips=None)

    repeat_lost(attempt, [CHANGED._replace(prepare=read_again)])


def requested(
    api: ComputeApiCollaborators, call: Call, groups: Sequence[RequestedGroup] | None
) -> tuple[str, ...] | None:
    """Returns the ids of a new server's groups; None: the default group.

    Raises BadRequest if a group is unknown, or if several groups have its name.
    """
    names = [group.name for group in groups or ()]
    if not names or names == [DEFAULT_GROUP]:
        return None
    if api.neutron is not None:
        neutron_ids = neutron.groups_named(api, call)
        return tuple(dict.fromkeys(_only(call, name, neutron_ids.get(name, [])) for name in names))
    with api.db.read() as session:
        ids_by_name = security_groups.ids_of_names(session, call.ctx.project_id, names)
    return tuple(dict.fromkeys(_only(call, name, ids_by_name.get(name, [])) for name in names))


def _only(call: Call, name: str, group_ids: Collection[str]) -> str:
    if len(group_ids) != 1:
        reason = "Multiple security groups have this name" if group_ids else "Security group not found"
        raise errors.BadRequest(f"{reason}: '{name[:255]}' of project {call.ctx.project_id}.")
    return next(iter(group_ids))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/servers/{server_id}/os-security-groups",
        rule="os_compute_api:os-security-groups:list",
        handler=list_groups,
        answer={"security_groups": list[dict[str, Any]]},
    ),
)
