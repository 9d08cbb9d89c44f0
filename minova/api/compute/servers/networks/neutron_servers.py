"""The Neutron ports of existing servers: their security groups and addresses, read and changed with the caller's token,
as in Nova.

The row of a server names its ports. Other ports in Neutron with the server's id as `device_id` are not the server's:
any project may write that field.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers.networks.neutron import client_of, token_of
from minova.api.http.call import Call
from minova.db.api_queries.instances import InstanceRow
from minova.db.networks import neutron_ports
from minova.db.sql import chunked
from minova.objects.network.network import SecurityGroup, SecurityGroupRule
from minova.races import CHANGED, repeat_lost

if TYPE_CHECKING:  # importing it takes time at the start, which clouds without Neutron save
    from minova.neutron_client import Document

LOG = logging.getLogger(__name__)
# The most ids in one request to Neutron: they are part of its URL.
MAX_IDS = 150
# Seconds that an answer about servers waits for the names of their groups: it is useful without them, too.
PATIENCE = 5.0
# Seconds after a failed request to Neutron in which no other answer about servers waits: each holds a thread of the
# API.
QUIET = 10.0
_OFTEN = "The ports of the server are being changed by others. Please try again in a moment."
Ports = Mapping[str, Collection[str]]


def ports_of(session: Session, instance_uuids: Collection[str]) -> dict[str, list[str]]:
    """Returns the ids of the servers' ports in Neutron, by server, in the order of the ports."""
    return neutron_ports.ids_of(session, instance_uuids)


def ports_asked(
    api: ComputeApiCollaborators, session: Session, instance_uuids: Collection[str]
) -> dict[str, list[str]]:
    """The same as `ports_of`, for answers: empty if this API is not configured for Neutron."""
    return {} if api.neutron is None else ports_of(session, instance_uuids)


def require_neutron(api: ComputeApiCollaborators, row: InstanceRow) -> None:
    """Raises BadRequest if this API is no longer configured for the Neutron that has the server's ports."""
    if api.neutron is None:
        raise errors.BadRequest(
            f"The ports of server {row.uuid} are in Neutron, with which this API does not work: change them there."
        )


# -- security groups -----------------------------------------------------------------------------------------------------


def group_names(api: ComputeApiCollaborators, call: Call, ports: Ports) -> dict[str, list[str]]:
    """Returns the names of the security groups that Neutron shows the caller, by server.

    Takes two requests for all servers. Returns {} if Neutron is away.
    """
    if not any(ports.values()) or api.neutron is None or api.neutron.outage.failed_within(QUIET):
        return {}
    client, token = api.neutron.within(PATIENCE), token_of(api, call)
    try:
        port_documents = _all(partial(client.ports, token, fields=["id", "security_groups"]), _flat(ports.values()))
        groups = {port["id"]: _groups_in(port) for port in port_documents}
        security_groups = _all(
            partial(client.security_groups, token, fields=["id", "name"]), set(_flat(groups.values()))
        )
    except errors.MinovaError as error:
        LOG.warning("Servers are shown without their security groups: %s", error)
        return {}
    # A group in Neutron may have an empty name.
    names = {group["id"]: group["name"] or group["id"] for group in security_groups}
    return {
        uuid: sorted({names[group] for group in _flat(groups.get(port, ()) for port in of_server) if group in names})
        for uuid, of_server in ports.items()
    }


def groups_of(
    api: ComputeApiCollaborators, call: Call, port_ids: Collection[str]
) -> tuple[list[SecurityGroup], dict[str, SecurityGroup | None]]:
    """Returns the security groups of these ports, and by id all groups that these and their rules name: those that the
    caller may see.
    """
    client, token = client_of(api, call), token_of(api, call)
    ports = _all(partial(client.ports, token), port_ids)
    group_ids = set(_flat(_groups_in(port) for port in ports))
    groups = [_group(document) for document in _all(partial(client.security_groups, token), group_ids)]
    groups_by_id: dict[str, SecurityGroup | None] = {group.id: group for group in groups}
    remote = {rule.remote_group_id for group in groups for rule in group.rules if rule.remote_group_id is not None}
    for document in _all(partial(client.security_groups, token), remote - groups_by_id.keys()):
        groups_by_id[document["id"]] = _group(document)
    return sorted(groups, key=lambda group: (group.project_id, group.name)), groups_by_id


def change_group(
    api: ComputeApiCollaborators, call: Call, row: InstanceRow, port_ids: Sequence[str], name: str, *, adding: bool
) -> None:
    """Adds the group to each of these ports, or removes it.

    Raises NotFound if there is no such group, or if no port has the group that is to be removed.
    Raises Conflict if several groups have this name.
    Raises BadRequest if a port cannot have groups.
    """
    require_neutron(api, row)
    group_id = _group_named(api, call, row.project_id, name)
    change_count = 0
    for port_id in port_ids:
        change_count += _change(api, call, port_id, partial(_added if adding else _removed, group_id))
    if not adding and not change_count:
        raise errors.NotFound(f"Security group {name} not associated with the instance {row.uuid}")
    _look_again(api, call, row)


def _group_named(api: ComputeApiCollaborators, call: Call, project_id: str, name: str) -> str:
    """Returns the id of a group. As in Nova, looks for the id first, then for the name among the groups of
    the project.
    """
    client, token = client_of(api, call), token_of(api, call)
    by_id = client.security_groups(token, id=name)
    if token is None and not call.ctx.is_admin:  # Neutron shows all groups to minova's own user
        by_id = [group for group in by_id if group["tenant_id"] == project_id]
    groups = by_id or client.security_groups(token, name=name, tenant_id=project_id)
    if len(groups) > 1:
        raise errors.Conflict(f"Multiple security groups found matching '{name}'. Use an ID to be more specific.")
    if not groups:
        raise errors.NotFound(f"Security group {name} is not found for project {project_id}")
    return str(groups[0]["id"])


def _added(group_id: str, port: "Document") -> dict[str, Any] | None:
    has_addresses = port.get("fixed_ips") or port.get("ip_allocation") == "deferred"
    if not (port.get("port_security_enabled", True) and has_addresses):
        raise errors.BadRequest(
            "Network requires port_security_enabled and subnet associated in order to apply security groups."
        )
    groups = _groups_in(port)
    return None if group_id in groups else {"security_groups": [*groups, group_id]}


def _removed(group_id: str, port: "Document") -> dict[str, Any] | None:
    groups = _groups_in(port)
    return {"security_groups": [each for each in groups if each != group_id]} if group_id in groups else None


def _groups_in(port: "Document") -> list[str]:
    """Returns the groups of a port. A Neutron with `enable_security_group = false` shows none."""
    groups: list[str] = port.get("security_groups") or []
    return groups


# -- addresses -----------------------------------------------------------------------------------------------------------


def add_address(
    api: ComputeApiCollaborators, call: Call, row: InstanceRow, port_ids: Sequence[str], network_id: str
) -> None:
    """Adds an address to the first of the ports on this network, from the first subnet that has one.

    Raises NetworkNotFound if no port is on the network, BadRequest if no subnet has an address.
    """
    require_neutron(api, row)
    client, token = client_of(api, call), token_of(api, call)
    subnets = client.subnets(network_id, token)
    ports = {port["id"]: port for port in _all(partial(client.ports, token), port_ids)}
    port_id = next((uuid for uuid in port_ids if uuid in ports and ports[uuid]["network_id"] == network_id), None)
    if port_id is None or not subnets:
        raise errors.NetworkNotFound(f"Network could not be found for instance {row.uuid}.")
    refused: errors.MinovaError | None = None
    for subnet in subnets:
        try:
            # One try: Neutron gives another address each time.
            _change(api, call, port_id, partial(_with_address, subnet["id"]), tries=1)
        except (errors.IpAddressGenerationFailure, errors.BadRequest) as error:
            refused = error
        else:
            _look_again(api, call, row)
            return
    if isinstance(refused, errors.IpAddressGenerationFailure):
        raise errors.BadRequest(f"No fixed IP addresses available for network: {network_id}")
    assert refused is not None
    raise refused


def _with_address(subnet_id: str, port: "Document") -> dict[str, Any]:
    return {"fixed_ips": [*port["fixed_ips"], {"subnet_id": subnet_id}]}


def remove_address(
    api: ComputeApiCollaborators, call: Call, row: InstanceRow, port_ids: Sequence[str], address: str
) -> None:
    """Removes the address from its port. Raises BadRequest if no port has it."""
    require_neutron(api, row)
    if not any(_change(api, call, port_id, partial(_without_address, address)) for port_id in port_ids):
        raise errors.BadRequest(f"Instance {row.uuid} does not have fixed IP '{address}'.")
    _look_again(api, call, row)


def _without_address(address: str, port: "Document") -> dict[str, Any] | None:
    other_addresses = [fixed for fixed in port["fixed_ips"] if fixed["ip_address"] != address]
    return None if len(other_addresses) == len(port["fixed_ips"]) else {"fixed_ips": other_addresses}


# -- a port --------------------------------------------------------------------------------------------------------------


def _change(
    api: ComputeApiCollaborators,
    call: Call,
    port_id: str,
    changes_for: Callable[["Document"], dict[str, Any] | None],
    tries: int | None = None,
) -> bool:
    """Applies the changes that `changes_for` returns for the current port; None: no change.

    Returns False if nothing is changed, or if the caller does not see the port. Tries again while others change the
    same port, so that their changes are not lost.
    """
    client, token = client_of(api, call), token_of(api, call)

    def attempt() -> bool:
        port = client.port(port_id, token)
        changes = None if port is None else changes_for(port)
        if port is None or changes is None:
            return False
        try:
            client.update_port(port_id, changes, tries=tries, token=token, revision=port.get("revision_number"))
        except errors.PortNotFound:
            return False
        return True

    return repeat_lost(attempt, [CHANGED._replace(given_up=lambda _: errors.Conflict(_OFTEN))])


def _look_again(api: ComputeApiCollaborators, call: Call, row: InstanceRow) -> None:
    """Lets the conductor read the interfaces now: Neutron's event may come later, or never."""
    if row.host is not None:
        try:
            api.conductor.network_changed(call.ctx, instance_uuid=row.uuid, host=row.host)
        except errors.MinovaError as error:
            LOG.info("The interfaces of server %s are looked at later: %s", row.uuid, error)


def _all(ask: Callable[..., list["Document"]], ids: Collection[str]) -> list["Document"]:
    """Requests objects by their ids, in as few requests as the length of a URL permits."""
    return [document for chunk in chunked(sorted(ids), MAX_IDS) for document in ask(id=list(chunk))]


def _flat(lists: Iterable[Collection[str]]) -> list[str]:
    return [entry for each in lists for entry in each]


def _group(document: "Document") -> SecurityGroup:
    return SecurityGroup(
        id=document["id"],
        name=document["name"],
        description=document.get("description") or "",
        project_id=document["tenant_id"],
        rules=tuple(_rule(rule) for rule in document.get("security_group_rules") or ()),
    )


def _rule(document: "Document") -> SecurityGroupRule:
    names = (
        "id",
        "security_group_id",
        "direction",
        "ethertype",
        "protocol",
        "port_range_min",
        "port_range_max",
        "remote_ip_prefix",
        "remote_group_id",
    )
    values: dict[str, Any] = {name: document.get(name) for name in names}
    return SecurityGroupRule(project_id=document["tenant_id"], **values)
