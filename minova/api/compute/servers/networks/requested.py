"""The networks of new servers, and the addresses of servers."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers.networks import neutron
from minova.api.http.call import Call
from minova.api.http.microversions import History, added, removed
from minova.api.policies.enforcer import Target
from minova.db.networks import networks, ports
from minova.objects.network import addresses
from minova.objects.network.network import Network, Port
from minova.objects.network.physical_networks import segment_of_network
from minova.objects.network.vif import Vif
from minova.objects.requests.build_extras import NewInterface, RequestedNic

Text = Annotated[str, msgspec.Meta(max_length=255)]
_CHOOSES = "create_port:fixed_ips:ip_address"


Tag = Annotated[str, msgspec.Meta(min_length=1, max_length=60, pattern="^[^,/]*$")]


class Nic(neutron.WantedNic, frozen=True, kw_only=True, forbid_unknown_fields=True):
    uuid: Text | None = None
    port: Text | None = None
    fixed_ip: Text | None = None
    tag: Tag | None = None


# Nova does not accept a tag from 2.37 to 2.41.
BODY_HISTORY = History(
    Nic,
    added("2.32", "tag"),
    removed("2.37", "tag"),
    added("2.42", "tag"),
)


def access_address(version: int, text: str) -> str:
    """Returns the canonical form of `accessIPv4` or `accessIPv6`; empty for none.

    Raises BadRequest if the text is not an address of this version.
    """
    return str(addresses.parse_address(f"accessIPv{version}", text, version)) if text else ""


def requested_networks(
    api: ComputeApiCollaborators,
    call: Call,
    wanted_nics: Sequence[Nic] | str | None,
    servers: int,
    groups: tuple[str, ...] | None = None,
) -> tuple[RequestedNic, ...]:
    """Returns the interfaces of each new server, for the conductor.

    `groups`: the security groups of new ports; None: the default group.
    If `wanted_nics` is None, a server gets an interface on the only network that the project may use, or no interface if
    there is no network. `auto` is the same, but there must be a network. With `none`, a server gets no interface.

    Raises BadRequest if a network or port is unknown or another project's.
    Raises NetworkAmbiguous if the project may use several networks, PortInUse if a server has the port.
    """
    if wanted_nics == "none":
        return ()
    if api.neutron is not None:
        nics = neutron.requested(api, call, wanted_nics, servers)
        return _in_groups(nics, groups)
    with api.db.read() as session:
        nics = (
            _only_one(session, call.ctx.project_id)
            if not wanted_nics or isinstance(wanted_nics, str)
            else _each(session, call, wanted_nics, servers)
        )
    if wanted_nics == "auto" and not nics:
        raise errors.BadRequest(f"Unable to automatically allocate a network for project {call.ctx.project_id}")
    return _in_groups(nics, groups)


def _in_groups(nics: Sequence[RequestedNic], groups: tuple[str, ...] | None) -> tuple[RequestedNic, ...]:
    """Returns the interfaces, those with new ports in these security groups."""
    return tuple(nic if nic.port_id else msgspec.structs.replace(nic, security_groups=groups) for nic in nics)


def new_interface(session: Session, call: Call, project_id: str, wanted_nic: Nic, port_id: str) -> NewInterface:
    """Returns a new interface of a server of this project, for the conductor.

    `port_id`: the id of the port that is made if `wanted_nic` names none.

    Raises PortNotFound, NetworkNotFound or PortInUse, and Forbidden for an external network of another project.
    Raises BadRequest if `wanted_nic` names no network and the project may use none or several, or if the network has no
    subnets.
    """
    if wanted_nic.port is not None:
        nic = _by_port(session, call, wanted_nic, errors.PortNotFound)
    elif wanted_nic.uuid is not None:
        nic = _by_network(session, call, wanted_nic, errors.NetworkNotFound)
    else:
        try:
            only = _only_one(session, project_id)
        except errors.NetworkAmbiguous:
            raise errors.BadRequest(
                "More than one possible network found. Specify network ID(s) to select which one(s) to connect to."
            ) from None
        if not only:
            raise errors.BadRequest(
                f"No specific network was requested and none are available for project '{project_id}'."
            )
        nic = only[0]
    return NewInterface(id=port_id, **msgspec.structs.asdict(nic))


def _only_one(session: Session, project_id: str) -> tuple[RequestedNic, ...]:
    """Returns an interface on the only network among those of the project and the shared ones, as in Nova."""
    usable_networks = networks.usable(session, project_id, 2)
    if len(usable_networks) > 1:
        raise errors.NetworkAmbiguous("Multiple possible networks found, use a Network ID to be more specific.")
    return tuple(_new(_with_subnets(network)) for network in usable_networks)


def _each(session: Session, call: Call, nics: Sequence[Nic], servers: int) -> tuple[RequestedNic, ...]:
    neutron.check_together(nics, servers)
    return tuple(
        _by_port(session, call, nic) if nic.port is not None else _by_network(session, call, nic) for nic in nics
    )


Absent: TypeAlias = type[errors.MinovaError]


def _by_port(session: Session, call: Call, nic: Nic, absent: Absent = errors.BadRequest) -> RequestedNic:
    if nic.fixed_ip is not None:
        raise errors.BadRequest(f"Specified Fixed IP '{nic.fixed_ip[:64]}' cannot be used with port '{nic.port}'.")
    port: Port | None = ports.find(session, str(nic.port))
    if port is None or (port.project_id != call.ctx.project_id and not call.ctx.is_admin):
        raise absent(f"Port id {nic.port} could not be found.")
    network = networks.find(session, port.network_id)
    if network is not None and not network.usable_by(call.ctx.project_id, is_admin=call.ctx.is_admin):
        # The network may have been shared when the port was made.
        raise errors.Forbidden(f"It is not allowed to create an interface on network {network.id}.")
    if port.device_id or ports.is_attached(session, port.id):
        raise errors.PortInUse(f"Port {port.id} is still in use.")
    segment = None if network is None else segment_of_network(network)
    return RequestedNic(network_id=port.network_id, port_id=port.id, segment=segment, tag=nic.tag)


def _by_network(session: Session, call: Call, nic: Nic, absent: Absent = errors.BadRequest) -> RequestedNic:
    if nic.uuid is None:
        raise errors.BadRequest("Invalid input for field server.networks: each has a uuid or a port.")
    network = networks.find(session, nic.uuid)
    if network is None or not network.visible_to(call.ctx.project_id, is_admin=call.ctx.is_admin):
        raise absent(f"Network {nic.uuid} could not be found.")
    if not network.usable_by(call.ctx.project_id, is_admin=call.ctx.is_admin):
        raise errors.Forbidden(f"It is not allowed to create an interface on external network {network.id}.")
    if nic.fixed_ip is not None:
        addresses.parse_address("fixed_ip", nic.fixed_ip)
        call.require(_CHOOSES, Target(project_id=network.project_id))
    return _new(_with_subnets(network), nic.fixed_ip, nic.tag)


def _new(network: Network, ip_address: str | None = None, tag: str | None = None) -> RequestedNic:
    return RequestedNic(network_id=network.id, ip_address=ip_address, segment=segment_of_network(network), tag=tag)


def _with_subnets(network: Network) -> Network:
    if not network.subnets:
        raise errors.BadRequest(f"Network {network.id} requires a subnet in order to boot instances on.")
    return network


def addresses_of(vifs: Sequence[Vif]) -> dict[str, list[dict[str, Any]]]:
    """Returns the addresses by the name of the network, in Nova's format."""
    by_network: dict[str, list[dict[str, Any]]] = {}
    for vif in vifs:
        if not vif.mac_address:  # its port is not made yet
            continue
        entries = by_network.setdefault(vif.network_name, [])
        entries += [
            {
                "version": 6 if ":" in address.ip_address else 4,
                "addr": address.ip_address,
                "OS-EXT-IPS:type": "fixed",
                "OS-EXT-IPS-MAC:mac_addr": vif.mac_address,
            }
            for address in vif.addresses
        ]
    return by_network
