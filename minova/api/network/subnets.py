"""`/v2.0/subnets`."""

import ipaddress
import uuid
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from minova import errors
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.structs import Int64
from minova.api.network import common, networks, subnet_pools
from minova.api.network.answers import SubnetAnswer
from minova.api.network.collaborators import NetworkApiCollaborators
from minova.api.network.common import Text, Unset
from minova.api.network.removal import delete_once_free
from minova.api.network.resource import Creation, Resource
from minova.api.policies.enforcer import Target
from minova.db.hosts import compute_nodes
from minova.db.networks import ports, subnets
from minova.objects.network import addresses
from minova.objects.network.addresses import Block
from minova.objects.network.network import AUTOMATIC, AllocationPool, HostRoute, Subnet
from minova.objects.network.subnet_pools import SubnetPool, check_length

# Neutron's limits.
MAX_NAMESERVERS, MAX_ROUTES = 5, 20
# The beginnings of device owners.
_OWNERS = ("compute:", "network:", "baremetal:", "neutron:", "trunk:", "Octavia", "magnum:")
AddressText = Annotated[str, msgspec.Meta(max_length=64)]
Mode = Literal["slaac", "dhcpv6-stateful", "dhcpv6-stateless"]


class PoolBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    start: AddressText
    end: AddressText


class RouteBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    destination: AddressText
    nexthop: AddressText


class NewSubnet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """If `gateway_ip` is unset, it is the first address; if it is null, the subnet has none.

    Without `cidr` the subnet gets a range of the subnet pool, of the length `prefixlen` or the pool's default.
    """

    network_id: Text
    ip_version: Literal[4, 6] | None = None
    cidr: AddressText | None = None
    subnetpool_id: Text | None = None
    use_default_subnetpool: bool | None = None
    prefixlen: Annotated[int, msgspec.Meta(ge=0, le=128)] | None = None
    name: Text = ""
    description: Text = ""
    gateway_ip: AddressText | Unset | None = msgspec.UNSET
    allocation_pools: tuple[PoolBody, ...] | None = None
    enable_dhcp: bool = True
    dns_nameservers: tuple[AddressText, ...] | None = None
    host_routes: tuple[RouteBody, ...] | None = None
    ipv6_address_mode: Mode | None = None
    ipv6_ra_mode: Mode | None = None
    service_types: tuple[Text, ...] = ()
    segment_id: Text | None = None
    dns_publish_fixed_ip: bool | None = None
    project_id: Text | None = None
    tenant_id: Text | None = None


class SubnetChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Text | Unset = msgspec.UNSET
    description: Text | Unset = msgspec.UNSET
    gateway_ip: AddressText | Unset | None = msgspec.UNSET
    allocation_pools: tuple[PoolBody, ...] | Unset = msgspec.UNSET
    enable_dhcp: bool | Unset = msgspec.UNSET
    dns_nameservers: tuple[AddressText, ...] | Unset = msgspec.UNSET
    host_routes: tuple[RouteBody, ...] | Unset = msgspec.UNSET
    service_types: tuple[Text, ...] | Unset = msgspec.UNSET
    # Attributes that clients send with their defaults.
    segment_id: Text | None = None
    dns_publish_fixed_ip: bool | None = None


class UpdateSubnet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    subnet: SubnetChanges


class SubnetsQuery(common.ListQuery, frozen=True, kw_only=True):
    network_id: tuple[str, ...] = ()
    ip_version: tuple[Int64, ...] = ()
    cidr: tuple[str, ...] = ()
    gateway_ip: tuple[str, ...] = ()
    subnetpool_id: tuple[str, ...] = ()
    enable_dhcp: bool | None = None
    ipv6_address_mode: tuple[str, ...] = ()
    ipv6_ra_mode: tuple[str, ...] = ()
    shared: bool | None = None
    segment_id: tuple[str, ...] = ()


def list_subnets(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    query: SubnetsQuery = call.query
    filters = common.filters_of(
        query,
        network_id=query.network_id,
        ip_version=query.ip_version,
        cidr=query.cidr,
        gateway_ip=query.gateway_ip,
        subnetpool_id=query.subnetpool_id,
        enable_dhcp=query.enable_dhcp,
        ipv6_address_mode=query.ipv6_address_mode,
        ipv6_ra_mode=query.ipv6_ra_mode,
    )
    if query.segment_id:  # no subnet has a segment
        filters["uuid"] = ("",)
    seen_by = None if call.ctx.is_admin else call.ctx.project_id
    with api.db.read() as session:
        return common.listing(
            api,
            call,
            "subnets",
            lambda page: subnets.visible(session, seen_by, filters, page, shared=query.shared),
            view,
        )


def show(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    return common.shown(api, call, "subnet", view(find(api, call)))


def new(api: NetworkApiCollaborators, call: Call, body: NewSubnet) -> Subnet:
    """Makes a subnet in a network of the caller's project: other projects may use a shared network, but not
    change it.
    """
    network = networks.find(api, call, body.network_id)
    call.require_for(Target(project_id=network.project_id))
    if network.reachable:  # hosts get routes to the range
        call.require("update_network:minova:reachable")
    pool = _pool_of(api, call, body)
    ip_version = pool.ip_version if pool is not None and body.ip_version is None else body.ip_version
    if ip_version is None:
        raise errors.BadRequest("Failed to parse request. Required attribute 'ip_version' not specified")
    _require_defaults(body)
    return Subnet(
        id=str(uuid.uuid4()),
        network_id=network.id,
        name=common.checked_name("subnet's", body.name),
        description=common.checked_text("description", body.description),
        project_id=common.owner_of(call, body.project_id, body.tenant_id, "create_subnet"),
        ip_version=ip_version,
        enable_dhcp=body.enable_dhcp,
        dns_nameservers=_servers(api, body.dns_nameservers or ()),
        host_routes=_routes(body.host_routes or (), ip_version),
        ipv6_address_mode=body.ipv6_address_mode,
        ipv6_ra_mode=body.ipv6_ra_mode,
        service_types=_service_types(body.service_types),
        subnetpool_id=None if pool is None else pool.id,
        **_range_of(body, pool, ip_version),
    )


def _pool_of(api: NetworkApiCollaborators, call: Call, body: NewSubnet) -> SubnetPool | None:
    """Returns the subnet pool of which the subnet gets its range. Raises SubnetPoolNotFound, or BadRequest if the body
    contradicts itself.
    """
    if body.cidr is not None and body.prefixlen is not None:
        raise errors.BadRequest("Bad subnets request: cidr and prefixlen must not be supplied together.")
    if body.subnetpool_id is not None and body.use_default_subnetpool:
        raise errors.BadRequest(
            "Bad subnets request: subnetpool_id and use_default_subnetpool cannot both be specified."
        )
    if body.subnetpool_id is not None:
        pool = subnet_pools.find(api, call, body.subnetpool_id)
    elif body.use_default_subnetpool:
        if body.ip_version is None:
            raise errors.BadRequest(
                "Bad subnets request: ip_version must be specified in the absence of cidr and subnetpool_id."
            )
        pool = subnet_pools.default_of(api, call, body.ip_version)
    elif body.cidr is None:
        raise errors.BadRequest("Bad subnets request: a subnetpool must be specified in the absence of a cidr.")
    else:
        return None
    if body.ip_version not in (None, pool.ip_version):
        raise errors.BadRequest("Cannot mix IPv4 and IPv6 prefixes in a subnet pool.")
    if body.cidr is None and body.allocation_pools is not None:
        raise errors.BadRequest("Bad subnets request: allocation_pools allowed only for specific subnet requests.")
    return pool


def _range_of(body: NewSubnet, pool: SubnetPool | None, ip_version: int) -> dict[str, Any]:
    """Returns the range of the subnet with its gateway and allocation pools, or what the conductor needs to choose it."""
    if body.cidr is not None:
        block = addresses.parse_cidr(body.cidr, ip_version)
        _require_servable(block.prefixlen, str(block), body, ip_version)
        gateway = _gateway(block, body.gateway_ip)
        pools = _pools(block, body.allocation_pools, gateway)
        return {"cidr": str(block), "gateway_ip": gateway, "allocation_pools": pools}
    assert pool is not None
    length = pool.default_prefixlen if body.prefixlen is None else body.prefixlen
    check_length(pool, length)
    _require_servable(length, f"/{length}", body, ip_version)
    gateway = "" if isinstance(body.gateway_ip, Unset) else body.gateway_ip
    return {"cidr": "", "prefixlen": length, "gateway_ip": gateway}


def _require_servable(length: int, shown: str, body: NewSubnet, ip_version: int) -> None:
    """Raises BadRequest unless hosts can serve the subnet as it says, in Neutron's words where Neutron has the rule.

    `length`, `shown`: the prefix length of its range, and how an error names the range.
    """
    modes = {mode for mode in (body.ipv6_address_mode, body.ipv6_ra_mode) if mode}
    if not modes:
        return
    if ip_version == 4:
        raise errors.BadRequest("Invalid input for ipv6_address_mode. Reason: ip_version is 4.")
    if not body.enable_dhcp:
        raise errors.BadRequest(
            "Invalid input for operation: ipv6_ra_mode or ipv6_address_mode cannot be set when enable_dhcp is set to False."
        )
    if len(modes) > 1:
        raise errors.BadRequest(
            f"Invalid input for operation: ipv6_ra_mode set to '{body.ipv6_ra_mode}' with ipv6_address_mode set to "
            f"'{body.ipv6_address_mode}' is not valid. If both attributes are set, they must be the same value."
        )
    (mode,) = modes
    if addresses.is_servable(length, mode):
        return
    if mode in AUTOMATIC:
        raise errors.BadRequest(
            f"Invalid input for operation: Invalid CIDR {shown} for IPv6 address mode. OpenStack uses the EUI-64 address "
            "format, which requires the prefix to be /64."
        )
    raise errors.BadRequest(
        f"Invalid input for cidr. Reason: '{shown}' is not valid: hosts serve {mode} in ranges of /64 at most; without a mode, "
        "guests get their addresses by their config drive or metadata."
    )


def add(api: NetworkApiCollaborators, call: Call, subnets: Sequence[Subnet]) -> list[dict[str, Any]]:
    created_subnets = api.conductor.create_subnets(call.ctx, subnets=tuple(subnets), any_range=call.ctx.is_admin)
    return [view(subnet) for subnet in created_subnets]


def _require_defaults(body: NewSubnet | SubnetChanges) -> None:
    """Raises BadRequest for a value that is not served, with the reason."""
    common.only_default("segment_id", body.segment_id is None, "networks have no segments")
    common.only_default("dns_publish_fixed_ip", not body.dns_publish_fixed_ip, "no DNS service outside knows guests")


def update(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    _require_defaults(call.body.subnet)
    changes = common.given_fields(call.body.subnet)
    del changes["segment_id"], changes["dns_publish_fixed_ip"]
    common.check_texts("subnet's", changes)

    def attempt() -> Subnet:
        subnet = _owned(api, call)
        common.require_revision(call, subnet)
        return api.conductor.update_subnet(call.ctx, subnet=_changed(api, subnet, changes))

    return common.shown(api, call, "subnet", view(common.change(attempt)))


def _changed(api: NetworkApiCollaborators, subnet: Subnet, changes: dict[str, Any]) -> Subnet:
    block = addresses.parse_cidr(subnet.cidr, subnet.ip_version)
    values = dict(changes)
    if changes.get("enable_dhcp") is False and (subnet.ipv6_address_mode or subnet.ipv6_ra_mode):
        raise errors.BadRequest("Invalid input for operation: Cannot disable enable_dhcp with ipv6 attributes set.")
    gateway = subnet.gateway_ip
    if "gateway_ip" in changes:
        gateway = values["gateway_ip"] = _gateway(block, changes["gateway_ip"])
    if "allocation_pools" in changes or "gateway_ip" in changes:
        pools = changes.get("allocation_pools", subnet.allocation_pools)
        values["allocation_pools"] = _pools(block, pools, gateway)
    if "dns_nameservers" in changes:
        values["dns_nameservers"] = _servers(api, changes["dns_nameservers"])
    if "host_routes" in changes:
        values["host_routes"] = _routes(changes["host_routes"], subnet.ip_version)
    if "service_types" in changes:
        values["service_types"] = _service_types(changes["service_types"])
    return msgspec.structs.replace(subnet, **values)


def delete(api: NetworkApiCollaborators, call: Call) -> None:
    subnet_id = _owned(api, call).id
    revision = common.revision_argument(call)
    delete_once_free(
        api,
        call,
        lambda: api.conductor.delete_subnet(call.ctx, subnet_id=subnet_id, **revision),
        lambda session: ports.only_pending_delete_of_subnet(session, subnet_id),
    )


def _gateway(block: Block, requested: str | Unset | None) -> str | None:
    if isinstance(requested, Unset):
        return addresses.default_gateway(block)
    return None if requested is None else addresses.check_gateway(block, requested)


def _pools(
    block: Block, requested: tuple[PoolBody, ...] | tuple[AllocationPool, ...] | None, gateway: str | None
) -> tuple[AllocationPool, ...]:
    if requested is None:
        return addresses.default_pools(block, gateway)
    return addresses.check_pools(block, [AllocationPool(start=pool.start, end=pool.end) for pool in requested], gateway)


def _servers(api: NetworkApiCollaborators, requested: tuple[str, ...]) -> tuple[str, ...]:
    if len(requested) > MAX_NAMESERVERS:
        raise errors.BadRequest(f"Invalid input for dns_nameservers. Reason: there may be {MAX_NAMESERVERS}.")
    if not requested:
        return ()
    with api.db.read() as session:
        of_hosts = compute_nodes.addresses(session)
    servers = tuple(addresses.parse_resolver("dns_nameservers", text, of_hosts) for text in requested)
    if len(set(servers)) < len(servers):
        raise errors.BadRequest("Invalid input for dns_nameservers. Reason: one stands there twice.")
    return servers


def _routes(requested: tuple[RouteBody, ...], ip_version: int) -> tuple[HostRoute, ...]:
    if len(requested) > MAX_ROUTES:
        raise errors.BadRequest(f"Invalid input for host_routes. Reason: there may be {MAX_ROUTES}.")
    return tuple(_route(route, ip_version) for route in requested)


def _route(route: RouteBody, ip_version: int) -> HostRoute:
    nexthop = addresses.parse_address("host_routes", route.nexthop, ip_version)
    try:
        destination = ipaddress.ip_network(route.destination)
    except ValueError:
        destination = None
    if destination is None or destination.version != ip_version:
        raise errors.BadRequest(
            f"Invalid input for host_routes. Reason: '{route.destination}' is not an IPv{ip_version} range."
        )
    return HostRoute(destination=str(destination), nexthop=str(nexthop))


def _service_types(requested: tuple[str, ...]) -> tuple[str, ...]:
    """Raises BadRequest if one is no value of `device_owner` that Neutron knows, or stands there twice."""
    for text in requested:
        if not text.startswith(_OWNERS):
            raise errors.BadRequest(
                f"Invalid input for service_types. Reason: Service type {text} does not correspond to a valid device owner."
            )
    if len(set(requested)) < len(requested):
        raise errors.BadRequest("Invalid input for service_types. Reason: one stands there twice.")
    return requested


def _owned(api: NetworkApiCollaborators, call: Call) -> Subnet:
    subnet = find(api, call)
    call.require_for(Target(project_id=subnet.project_id))
    return subnet


def find(api: NetworkApiCollaborators, call: Call) -> Subnet:
    """Raises SubnetNotFound also for a subnet of a network that the caller may not see."""
    subnet_id = call.path["subnet_id"]
    with api.db.read() as session:
        subnet = subnets.find(session, common.identifier(subnet_id))
    if subnet is not None and subnet.project_id != call.ctx.project_id:
        try:
            networks.find(api, call, subnet.network_id)
        except errors.NetworkNotFound:
            subnet = None
    if subnet is None:
        raise errors.SubnetNotFound(f"Subnet {subnet_id[:255]} could not be found.")
    return subnet


def view(subnet: Subnet) -> dict[str, Any]:
    return {
        **common.standard(subnet),
        "network_id": subnet.network_id,
        "ip_version": subnet.ip_version,
        "cidr": subnet.cidr,
        "gateway_ip": subnet.gateway_ip,
        "enable_dhcp": subnet.enable_dhcp,
        "allocation_pools": subnet.allocation_pools,
        "dns_nameservers": subnet.dns_nameservers,
        "host_routes": subnet.host_routes,
        "ipv6_address_mode": subnet.ipv6_address_mode,
        "ipv6_ra_mode": subnet.ipv6_ra_mode,
        "service_types": subnet.service_types,
        "subnetpool_id": subnet.subnetpool_id,
    }


ROUTES: tuple[Route, ...] = Resource(
    name="subnet",
    answer=SubnetAnswer,
    index=list_subnets,
    query=SubnetsQuery,
    creation=Creation(fields=NewSubnet, new=new, add=add),
    show=show,
    update=update,
    changes=UpdateSubnet,
    delete=delete,
).routes()
