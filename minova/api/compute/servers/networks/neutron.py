"""The networks of new servers, from a Neutron beside minova.

Requests to Neutron carry the caller's token, so that Neutron decides what the caller sees.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.http.call import Call
from minova.api.policies.enforcer import Target
from minova.db.api_queries.instances import InstanceRow
from minova.objects.network import addresses
from minova.objects.network.group_names import ids_by_text
from minova.objects.network.port_features import refusal_reason
from minova.objects.network.port_marks import mark
from minova.objects.network.vif import MAX_NICS, NEUTRON, device_owner
from minova.objects.requests.build_extras import NewInterface, RequestedNic

if TYPE_CHECKING:  # importing it takes time at the start, which clouds without Neutron save
    from minova.neutron_client import Document, NeutronClient

LOG = logging.getLogger(__name__)
# The total time in seconds that one request waits for Neutron: it holds a thread of the API.
PATIENCE = 10.0
_CHOOSES = "create_port:fixed_ips:ip_address"


class WantedNic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One interface in a request."""

    uuid: str | None = None
    port: str | None = None
    fixed_ip: str | None = None
    tag: str | None = None


def check_together(nics: Sequence[WantedNic], servers: int) -> None:
    """Raises BadRequest if one server, or this number of servers, cannot have all of the interfaces."""
    if len(nics) > MAX_NICS:
        raise errors.BadRequest(f"A server may have {MAX_NICS} networks, and {len(nics)} are given.")
    port_ids = [nic.port for nic in nics if nic.port is not None]
    if len(set(port_ids)) < len(port_ids):
        raise errors.BadRequest("A port stands in networks twice.")
    if servers > 1 and (port_ids or any(nic.fixed_ip is not None for nic in nics)):
        raise errors.BadRequest("A port or a fixed_ip is for one server, and max_count is more.")


def client_of(api: ComputeApiCollaborators, call: Call) -> "NeutronClient":
    """Returns the client of this request. All its calls to Neutron share PATIENCE."""
    assert api.neutron is not None
    context = call.request.context
    if not hasattr(context, "neutron"):
        context.neutron = api.neutron.within(PATIENCE)
    client: NeutronClient = context.neutron
    return client


def token_of(api: ComputeApiCollaborators, call: Call) -> str | None:
    """Returns the caller's token. None: the callers are not Keystone's, and requests to Neutron use the user of
    `[neutron]`.
    """
    if api.conf.api.auth_strategy != "keystone":
        return None
    return call.request.get_header("X-Auth-Token") or ""


def requested(
    api: ComputeApiCollaborators, call: Call, wanted_nics: Sequence[WantedNic] | str | None, servers: int
) -> tuple[RequestedNic, ...]:
    """Returns the interfaces of each new server. Raises BadRequest, Forbidden, NetworkAmbiguous and PortInUse as
    `requested_networks`.
    """
    resolver = NeutronResolver(api, call)
    if isinstance(wanted_nics, str) or not wanted_nics:
        nics = resolver.only_one()
        if wanted_nics == "auto" and not nics:
            raise errors.BadRequest(f"Unable to automatically allocate a network for project {call.ctx.project_id}")
        return nics
    check_together(wanted_nics, servers)
    return tuple(resolver.by_port(nic) if nic.port is not None else resolver.by_network(nic) for nic in wanted_nics)


class NeutronResolver:
    """Resolves the networks and ports of one caller."""

    def __init__(self, api: ComputeApiCollaborators, call: Call) -> None:
        self._client = client_of(api, call)
        self._token = token_of(api, call)
        self._call = call
        self._project_id = call.ctx.project_id

    def only_one(self) -> tuple[RequestedNic, ...]:
        """Returns an interface on the only network among those of the project and the shared ones, as in Nova.

        Raises NetworkAmbiguous if there are several.
        """
        own = self._client.networks(self._token, tenant_id=self._project_id)
        shared = self._client.networks(self._token, shared=True)
        networks_by_id = {network["id"]: network for network in (*own, *shared)}
        if len(networks_by_id) > 1:
            raise errors.NetworkAmbiguous("Multiple possible networks found, use a Network ID to be more specific.")
        return tuple(self._new(network) for network in networks_by_id.values())

    def by_network(self, nic: WantedNic, unknown: type[errors.MinovaError] = errors.BadRequest) -> RequestedNic:
        """Raises `unknown` if the caller may use no such network."""
        if nic.uuid is None:
            raise errors.BadRequest("Invalid input for field server.networks: each has a uuid or a port.")
        network = self._client.network(nic.uuid, self._token)
        if network is None or not (self._is_usable(network) or network.get("router:external")):
            raise unknown(f"Network {nic.uuid} could not be found.")
        if not self._is_usable(network):
            raise errors.Forbidden(f"It is not allowed to create an interface on external network {network['id']}.")
        if nic.fixed_ip is not None:
            addresses.parse_address("fixed_ip", nic.fixed_ip)
            self._call.require(_CHOOSES, Target(project_id=str(network.get("tenant_id"))))
        return self._new(network, nic)

    def by_port(self, nic: WantedNic, unknown: type[errors.MinovaError] = errors.BadRequest) -> RequestedNic:
        """Raises `unknown` if the caller may use no such port."""
        if nic.fixed_ip is not None:
            raise errors.BadRequest(f"Specified Fixed IP '{nic.fixed_ip[:64]}' cannot be used with port '{nic.port}'.")
        port = self._client.port(str(nic.port), self._token)
        is_admin = self._call.ctx.is_admin
        if port is None or (port.get("tenant_id") != self._project_id and not is_admin):
            raise unknown(f"Port id {nic.port} could not be found.")
        if port.get("device_id"):
            raise errors.PortInUse(f"Port {port['id']} is still in use.")
        reason = refusal_reason(port)
        if reason is not None:
            raise errors.BadRequest(reason)
        return RequestedNic(network_id=port["network_id"], port_id=port["id"], service=NEUTRON, tag=nic.tag)

    def _is_usable(self, network: "Document") -> bool:
        return bool(network.get("shared") or network.get("tenant_id") == self._project_id or self._call.ctx.is_admin)

    @staticmethod
    def _new(network: "Document", nic: WantedNic | None = None) -> RequestedNic:
        if not network.get("subnets"):
            raise errors.BadRequest(f"Network {network['id']} requires a subnet in order to boot instances on.")
        wanted_nic = nic or WantedNic()
        return RequestedNic(
            network_id=network["id"], ip_address=wanted_nic.fixed_ip, service=NEUTRON, tag=wanted_nic.tag
        )


def new_interface(api: ComputeApiCollaborators, call: Call, row: InstanceRow, nic: WantedNic) -> NewInterface:
    """Returns a new interface of an existing server. Makes a port if the request names none; the caller must withdraw
    it if the server cannot have it.

    Raises the errors of `requested`, but PortNotFound or NetworkNotFound for an unknown port or network, as Nova does.
    Raises BadRequest if no network is available.
    """
    resolver = NeutronResolver(api, call)
    resolved_nic: RequestedNic | None
    try:
        if nic.port is not None:
            resolved_nic = resolver.by_port(nic, errors.PortNotFound)
        elif nic.uuid is not None:
            resolved_nic = resolver.by_network(nic, errors.NetworkNotFound)
        else:
            resolved_nic = next(iter(resolver.only_one()), None)
    except errors.NetworkAmbiguous:
        raise errors.BadRequest(
            "More than one possible network found. Specify network ID(s) to select which one(s) to connect to."
        ) from None
    if resolved_nic is None:
        raise errors.BadRequest(
            f"No specific network was requested and none are available for project '{row.project_id}'."
        )
    values = msgspec.structs.asdict(msgspec.structs.replace(resolved_nic, tag=nic.tag))
    if resolved_nic.port_id is not None:
        return NewInterface(id=resolved_nic.port_id, **values)
    new_port: dict[str, Any] = {
        "network_id": resolved_nic.network_id,
        "tenant_id": row.project_id,
        "device_id": row.uuid,
        "device_owner": device_owner(row.availability_zone),
        **mark(row.uuid),
    }
    if resolved_nic.ip_address is not None:
        new_port["fixed_ips"] = [{"ip_address": resolved_nic.ip_address}]
    # Recorded before the port exists: this process may die, or Neutron's answer may be lost.
    api.conductor.expect_port(call.ctx, instance_uuid=row.uuid, network_id=resolved_nic.network_id)
    try:
        port = client_of(api, call).create_port(new_port)
    except errors.IpAddressGenerationFailure:
        raise errors.BadRequest(f"No fixed IP addresses available for network: {resolved_nic.network_id}") from None
    return NewInterface(id=port["id"], **values)


def withdraw(api: ComputeApiCollaborators, port_id: str) -> None:
    """Deletes a port of `new_interface`. Raises nothing."""
    assert api.neutron is not None
    try:
        api.neutron.within(PATIENCE).delete_port(port_id)
    except errors.MinovaError as error:
        LOG.warning("Port %s is left in Neutron for some minutes: %s", port_id, error)


def groups_named(api: ComputeApiCollaborators, call: Call) -> dict[str, list[str]]:
    """Returns the ids of the caller's project's security groups, by name and by id. An id wins over a name."""
    groups: list[dict[str, Any]] = client_of(api, call).security_groups(
        token_of(api, call), tenant_id=call.ctx.project_id
    )
    return ids_by_text((group["id"], group["name"]) for group in groups)
