"""`/v2.0/networks`."""

import uuid
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from minova import errors
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.structs import Int64
from minova.api.network import common
from minova.api.network.answers import NetworkAnswer
from minova.api.network.collaborators import NetworkApiCollaborators
from minova.api.network.common import Text, Unset
from minova.api.network.removal import delete_once_free
from minova.api.network.resource import Creation, Resource
from minova.api.policies.enforcer import Target
from minova.db.networks import networks, ports
from minova.objects.network.network import DEFAULT_MTU, FLAT, LOCAL, VLAN, Network

Mtu = Annotated[int, msgspec.Meta(ge=68, le=65535)]
Vlan = Annotated[int, msgspec.Meta(ge=1, le=4094)]
Physical = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")]
_TYPE, _PHYSICAL, _SEGMENT = "provider:network_type", "provider:physical_network", "provider:segmentation_id"
_EXTERNAL = "router:external"
_REACHABLE = "minova:reachable"


class NewNetwork(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Text = ""
    description: Text = ""
    admin_state_up: bool = True
    shared: bool = False
    external: bool = msgspec.field(name=_EXTERNAL, default=False)
    mtu: Mtu | None = None
    network_type: Literal["local", "flat", "vlan"] | Unset = msgspec.field(name=_TYPE, default=msgspec.UNSET)
    physical_network: Physical | Unset | None = msgspec.field(name=_PHYSICAL, default=msgspec.UNSET)
    segmentation_id: Vlan | Unset | None = msgspec.field(name=_SEGMENT, default=msgspec.UNSET)
    reachable: bool = msgspec.field(name=_REACHABLE, default=False)
    port_security_enabled: bool = True
    # Attributes that clients send with their defaults.
    availability_zone_hints: tuple[str, ...] | None = None
    is_default: bool | None = None
    vlan_transparent: bool | None = None
    qos_policy_id: Text | None = None
    dns_domain: Text | None = None
    project_id: Text | None = None
    tenant_id: Text | None = None


class NetworkChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Text | Unset = msgspec.UNSET
    description: Text | Unset = msgspec.UNSET
    admin_state_up: bool | Unset = msgspec.UNSET
    shared: bool | Unset = msgspec.UNSET
    external: bool | Unset = msgspec.field(name=_EXTERNAL, default=msgspec.UNSET)
    mtu: Mtu | Unset = msgspec.UNSET
    reachable: bool | Unset = msgspec.field(name=_REACHABLE, default=msgspec.UNSET)
    port_security_enabled: bool | Unset = msgspec.UNSET
    # As above.
    is_default: bool | None = None
    qos_policy_id: Text | None = None
    dns_domain: Text | None = None


# Attributes of which only the default is served, and why.
_DEFAULTS = {
    "availability_zone_hints": "networks are in all availability zones",
    "is_default": "no network is external",
    "vlan_transparent": "guests have no VLANs of their own",
    "qos_policy_id": "QoS policies are not served",
    "dns_domain": "names of guests are in openstacklocal",
}


class UpdateNetwork(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    network: NetworkChanges


class NetworksQuery(common.ListQuery, frozen=True, kw_only=True):
    admin_state_up: bool | None = None
    shared: bool | None = None
    external: bool | None = msgspec.field(name=_EXTERNAL, default=None)
    is_default: bool | None = None
    status: tuple[str, ...] = ()
    mtu: tuple[Int64, ...] = ()
    network_type: tuple[str, ...] = msgspec.field(name=_TYPE, default=())
    physical_network: tuple[str, ...] = msgspec.field(name=_PHYSICAL, default=())
    segmentation_id: tuple[Int64, ...] = msgspec.field(name=_SEGMENT, default=())


def list_networks(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    query: NetworksQuery = call.query
    filters = common.filters_of(query, mtu=query.mtu)
    provider = {
        "network_type": (_TYPE, query.network_type),
        "physical_network": (_PHYSICAL, query.physical_network),
        "segmentation_id": (_SEGMENT, query.segmentation_id),
    }
    # Ignores filters by attributes that the caller may not see: they would reveal the values.
    filters |= {
        column: values for column, (name, values) in provider.items() if values and call.permits(f"get_network:{name}")
    }
    if (query.status and "ACTIVE" not in query.status) or query.external or query.is_default:
        filters["uuid"] = ("",)
    seen_by = None if call.ctx.is_admin else call.ctx.project_id
    with api.db.read() as session:
        return common.listing(
            api,
            call,
            "networks",
            lambda page: networks.visible(session, seen_by, filters, page, shared=query.shared),
            lambda network: view(call, network),
        )


def show(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    return common.shown(api, call, "network", view(call, find(api, call, call.path["network_id"])))


def new(api: NetworkApiCollaborators, call: Call, body: NewNetwork) -> Network:
    provider = {
        name: value
        for name, value in common.given_fields(body).items()
        if name in ("network_type", "physical_network", "segmentation_id")
    }
    common.require_each(
        call,
        "create_network",
        {"shared": body.shared, _EXTERNAL: body.external, _REACHABLE: body.reachable}
        | {f"provider:{name}": True for name in provider},
    )
    _refuse_external(body.external)
    _require_defaults(body)
    network = Network(
        id=str(uuid.uuid4()),
        name=common.checked_name("network's", body.name),
        description=common.checked_text("description", body.description),
        project_id=common.owner_of(call, body.project_id, body.tenant_id, "create_network"),
        admin_state_up=body.admin_state_up,
        shared=body.shared,
        mtu=DEFAULT_MTU if body.mtu is None else body.mtu,
        reachable=body.reachable,
        port_security_enabled=body.port_security_enabled,
        **provider,
    )
    check_segment(network)
    return network


def add(api: NetworkApiCollaborators, call: Call, networks: Sequence[Network]) -> list[dict[str, Any]]:
    return [view(call, network) for network in api.conductor.create_networks(call.ctx, networks=tuple(networks))]


def _require_defaults(body: NewNetwork | NetworkChanges) -> None:
    """Raises BadRequest for a value that is not served, with the reason."""
    for field, reason in _DEFAULTS.items():
        common.only_default(field, not getattr(body, field, None), reason)


def _refuse_external(external: bool) -> None:
    """Clients take an external network for one with floating addresses, and wait for those."""
    if external:
        raise errors.BadRequest(
            f"Invalid input for {_EXTERNAL}. Reason: minova's built-in networks have no routers and no floating addresses. "
            "A shared network that is flat or a vlan gives servers addresses of a physical network."
        )


def check_segment(network: Network) -> None:
    """Raises BadRequest if an attribute is missing that the type of the network needs, or set that the type does not
    allow.
    """
    is_physical = network.network_type in (FLAT, VLAN)
    if is_physical and network.physical_network is None:
        raise errors.BadRequest(f"Invalid input for {_PHYSICAL}. Reason: a {network.network_type} network needs it.")
    if network.network_type == VLAN and network.segmentation_id is None:
        raise errors.BadRequest(f"Invalid input for {_SEGMENT}. Reason: a vlan network needs it.")
    if network.network_type == LOCAL and network.physical_network is not None:
        raise errors.BadRequest(f"Invalid input for {_PHYSICAL}. Reason: a local network has none.")
    if network.network_type != LOCAL and network.reachable:
        raise errors.BadRequest(
            f"Invalid input for {_REACHABLE}. Reason: a {network.network_type} network is no host's."
        )
    if network.network_type != VLAN and network.segmentation_id is not None:
        raise errors.BadRequest(f"Invalid input for {_SEGMENT}. Reason: a {network.network_type} network has none.")


def update(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    _require_defaults(call.body.network)
    changes = {name: value for name, value in common.given_fields(call.body.network).items() if name not in _DEFAULTS}
    common.check_texts("network's", changes)
    limited = {"shared": "shared", "external": _EXTERNAL, "reachable": _REACHABLE}
    common.require_each(call, "update_network", {name: field in changes for field, name in limited.items()})
    _refuse_external(changes.get("external", False))

    def attempt() -> Network:
        network = _owned(api, call)
        common.require_revision(call, network)
        changed = msgspec.structs.replace(network, **changes)
        check_segment(changed)
        return api.conductor.update_network(call.ctx, network=changed)

    return common.shown(api, call, "network", view(call, common.change(attempt)))


def delete(api: NetworkApiCollaborators, call: Call) -> None:
    network_id = _owned(api, call).id
    revision = common.revision_argument(call)
    delete_once_free(
        api,
        call,
        lambda: api.conductor.delete_network(call.ctx, network_id=network_id, **revision),
        lambda session: ports.only_pending_delete_on_network(session, network_id),
    )


def _owned(api: NetworkApiCollaborators, call: Call) -> Network:
    """Returns the network in the path. Raises NetworkNotFound if the caller does not see it, Forbidden if it is another
    project's.
    """
    network = find(api, call, call.path["network_id"])
    call.require_for(Target(project_id=network.project_id))
    return network


def find(api: NetworkApiCollaborators, call: Call, network_id: str) -> Network:
    """Raises NetworkNotFound also if the caller may not see the network."""
    with api.db.read() as session:
        network = networks.find(session, common.identifier(network_id))
    if network is None or not network.visible_to(call.ctx.project_id, is_admin=call.ctx.is_admin):
        raise errors.NetworkNotFound(f"Network {network_id[:255]} could not be found.")
    return network


def view(call: Call, network: Network) -> dict[str, Any]:
    limited = {
        _TYPE: network.network_type,
        _PHYSICAL: network.physical_network,
        _SEGMENT: network.segmentation_id,
        _REACHABLE: network.reachable,
    }
    return {
        **common.standard(network),
        "admin_state_up": network.admin_state_up,
        "status": "ACTIVE",
        # Networks of earlier versions may be external: every project sees them.
        "shared": network.shared or network.external,
        _EXTERNAL: False,
        "mtu": network.mtu,
        "port_security_enabled": network.port_security_enabled,
        "availability_zone_hints": (),
        "availability_zones": (),
        "ipv4_address_scope": None,
        "ipv6_address_scope": None,
        "subnets": network.subnets,
        **{name: value for name, value in limited.items() if call.permits(f"get_network:{name}")},
    }


ROUTES: tuple[Route, ...] = Resource(
    name="network",
    answer=NetworkAnswer,
    index=list_networks,
    query=NetworksQuery,
    creation=Creation(fields=NewNetwork, new=new, add=add),
    show=show,
    update=update,
    changes=UpdateNetwork,
    delete=delete,
).routes()
