"""`/v2.0/ports`."""

import uuid
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from minova import errors
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.network import common, networks
from minova.api.network.answers import PortAnswer
from minova.api.network.collaborators import NetworkApiCollaborators
from minova.api.network.common import Text, Unset
from minova.api.network.resource import Creation, Resource
from minova.api.network.security import security_groups
from minova.api.policies.enforcer import Target
from minova.db.networks import networks as stored_networks
from minova.db.networks import ports
from minova.objects.network import addresses, dhcp_options
from minova.objects.network.dhcp_options import OptionChange
from minova.objects.network.network import (
    MAX_ADDRESSES,
    MAX_GROUPS,
    MAX_TAG,
    MAX_TAGS,
    AddressPair,
    AddressRequest,
    Network,
    NewPort,
    Port,
)
from minova.objects.network.port_features import NORMAL

MAX_PAIRS = 10
# Characters of a profile in JSON, as in Neutron.
MAX_PROFILE = 4095
# What Nova and drivers of Neutron write into profiles about hardware and services that minova does not serve.
HARDWARE = frozenset(
    {
        *("allocation", "arq_uuid", "capabilities", "card_serial_number", "device_mac_address", "guid"),
        *("local_group_information", "local_link_information", "migrating_to", "num_vfs", "os_vif_delegation"),
        *("parent_name", "pci_slot", "pci_vendor_info", "pf_mac_address", "physical_network", "tag", "trusted"),
        *("vf_num", "vtep-logical-switch", "vtep-physical-switch"),
    }
)
_HOST, _VNIC_TYPE, _PROFILE = "binding:host_id", "binding:vnic_type", "binding:profile"
Tags = tuple[Annotated[str, msgspec.Meta(max_length=MAX_TAG)], ...]


class FixedIpBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    subnet_id: Text | None = None
    ip_address: Text | None = None


class PairBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ip_address: Text
    mac_address: Text | None = None


class OptionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    opt_name: Text
    opt_value: Text | None
    ip_version: Literal[4, 6] = 4


class NewPortBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """If `fixed_ips` is unset, the port gets the next free address of each IP version; if it is empty, none."""

    network_id: Text
    name: Text = ""
    description: Text = ""
    admin_state_up: bool = True
    mac_address: Text | Unset = msgspec.UNSET
    fixed_ips: tuple[FixedIpBody, ...] | Unset = msgspec.UNSET
    device_id: Text = ""
    device_owner: Text = ""
    host: Text | Unset | None = msgspec.field(name=_HOST, default=msgspec.UNSET)
    security_groups: tuple[Text, ...] | Unset | None = msgspec.UNSET
    port_security_enabled: bool | Unset = msgspec.UNSET
    allowed_address_pairs: tuple[PairBody, ...] | Unset | None = msgspec.UNSET
    extra_dhcp_opts: tuple[OptionBody, ...] | None = None
    tags: Tags = ()
    vnic_type: Text = msgspec.field(name=_VNIC_TYPE, default=NORMAL)
    profile: dict[str, Any] | Unset | None = msgspec.field(name=_PROFILE, default=msgspec.UNSET)
    dns_name: Text | None = None
    dns_domain: Text | None = None
    qos_policy_id: Text | None = None
    trusted: bool | None = None
    propagate_uplink_status: bool | None = None
    numa_affinity_policy: Text | None = None
    device_profile: Text | None = None
    hints: dict[str, Any] | None = None
    project_id: Text | None = None
    tenant_id: Text | None = None


class PortChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Text | Unset = msgspec.UNSET
    description: Text | Unset = msgspec.UNSET
    admin_state_up: bool | Unset = msgspec.UNSET
    mac_address: Text | Unset = msgspec.UNSET
    fixed_ips: tuple[FixedIpBody, ...] | Unset = msgspec.UNSET
    device_id: Text | Unset = msgspec.UNSET
    device_owner: Text | Unset = msgspec.UNSET
    host: Text | Unset | None = msgspec.field(name=_HOST, default=msgspec.UNSET)
    security_groups: tuple[Text, ...] | Unset | None = msgspec.UNSET
    port_security_enabled: bool | Unset = msgspec.UNSET
    allowed_address_pairs: tuple[PairBody, ...] | Unset | None = msgspec.UNSET
    extra_dhcp_opts: tuple[OptionBody, ...] | Unset | None = msgspec.UNSET
    vnic_type: Text = msgspec.field(name=_VNIC_TYPE, default=NORMAL)
    profile: dict[str, Any] | Unset | None = msgspec.field(name=_PROFILE, default=msgspec.UNSET)
    dns_name: Text | None = None
    dns_domain: Text | None = None
    qos_policy_id: Text | None = None
    trusted: bool | None = None
    propagate_uplink_status: bool | None = None
    numa_affinity_policy: Text | None = None
    hints: dict[str, Any] | None = None


# Attributes that clients send, of which only the default is served.
_DEFAULTS: tuple[tuple[str, str, tuple[Any, ...], str], ...] = (
    ("vnic_type", _VNIC_TYPE, (NORMAL,), "only normal is served: SR-IOV and other hardware is not"),
    ("dns_name", "dns_name", (None, ""), "guests have the names of their servers"),
    ("dns_domain", "dns_domain", (None, ""), "names of guests are in openstacklocal"),
    ("qos_policy_id", "qos_policy_id", (None,), "QoS policies are not served"),
    ("trusted", "trusted", (None,), "it is of SR-IOV, which is not served"),
    ("propagate_uplink_status", "propagate_uplink_status", (None, True), "it is of SR-IOV, which is not served"),
    ("numa_affinity_policy", "numa_affinity_policy", (None,), "interfaces have no NUMA affinity"),
    ("device_profile", "device_profile", (None, ""), "accelerators are not served"),
    ("hints", "hints", (None, {}), "they are of Open vSwitch, which is not served"),
)


def _require_defaults(body: msgspec.Struct) -> None:
    """Raises BadRequest for a value that is not served, with the reason."""
    for attribute, name, served, reason in _DEFAULTS:
        common.only_default(name, getattr(body, attribute, served[0]) in served, reason)


class UpdatePort(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    port: PortChanges


class PortsQuery(common.ListQuery, frozen=True, kw_only=True):
    """`fixed_ips`: `ip_address=ADDRESS` or `subnet_id=ID`."""

    admin_state_up: bool | None = None
    network_id: tuple[str, ...] = ()
    mac_address: tuple[str, ...] = ()
    device_id: tuple[str, ...] = ()
    device_owner: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    fixed_ips: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    host: tuple[str, ...] = msgspec.field(name=_HOST, default=())


def list_ports(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    query: PortsQuery = call.query
    filters = common.filters_of(
        query,
        network_id=query.network_id,
        mac_address=tuple(mac.lower() for mac in query.mac_address),
        device_id=query.device_id,
        device_owner=query.device_owner,
        status=query.status,
        security_groups=query.security_groups,
        host=query.host if call.permits(f"get_port:{_HOST}") else (),
    )
    address_filters = _address_filters(query.fixed_ips)
    seen_by = None if call.ctx.is_admin else call.ctx.project_id
    with api.db.read() as session:
        return common.listing(
            api,
            call,
            "ports",
            lambda page: ports.visible(session, seen_by, filters, page, address_filters),
            lambda port: view(call, port),
        )


def _address_filters(values: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    filters: dict[str, tuple[str, ...]] = {}
    for value in values[: common.MAX_VALUES]:
        key, _, text = value.partition("=")
        if key not in ("ip_address", "subnet_id"):
            raise errors.BadRequest(f"Invalid input for fixed_ips. Reason: '{key[:64]}' is no filter.")
        if key == "ip_address":
            text = str(addresses.parse_address("fixed_ips", text))
        filters[key] = (*filters.get(key, ()), text)
    return filters


def show(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    return common.shown(api, call, "port", view(call, find(api, call)))


def new(api: NetworkApiCollaborators, call: Call, body: NewPortBody) -> NewPort:
    network = networks.find(api, call, body.network_id)
    if not network.usable_by(call.ctx.project_id, is_admin=call.ctx.is_admin):
        # As for a server that names the network itself: all projects see an external network, but only its own uses it.
        raise errors.Forbidden(f"It is not allowed to create an interface on external network {network.id}.")
    fixed_ips = _requests(body.fixed_ips)
    _require_defaults(body)
    _require_choices(call, "create_port", network, body, fixed_ips)
    _require_security_choices(call, "create_port", network, body.port_security_enabled, body.allowed_address_pairs)
    if len(set(body.tags)) < len(body.tags) or len(body.tags) > MAX_TAGS:
        raise errors.BadRequest(f"Invalid input for tags. Reason: there may be {MAX_TAGS}, each once.")
    secured = body.port_security_enabled
    port = Port(
        id=str(uuid.uuid4()),
        network_id=network.id,
        name=common.checked_name("port's", body.name),
        description=common.checked_text("description", body.description),
        project_id=common.owner_of(call, body.project_id, body.tenant_id, "create_port"),
        admin_state_up=body.admin_state_up,
        mac_address="" if isinstance(body.mac_address, Unset) else addresses.parse_mac(body.mac_address),
        device_id=common.checked_text("device_id", body.device_id),
        device_owner=common.checked_text("device_owner", body.device_owner),
        host="" if isinstance(body.host, Unset) else common.checked_text(_HOST, body.host or ""),
        port_security_enabled=network.port_security_enabled if isinstance(secured, Unset) else secured,
        allowed_address_pairs=_pairs(body.allowed_address_pairs),
        security_groups=_groups(api, call, body.security_groups),
        extra_dhcp_opts=dhcp_options.changed((), _options(body.extra_dhcp_opts)),
        binding_profile=_profile(body.profile),
    )
    return NewPort(port=port, fixed_ips=fixed_ips, tags=body.tags)


def _profile(given: dict[str, Any] | Unset | None) -> dict[str, Any]:
    """Raises BadRequest if it is about hardware, or too long."""
    profile = {} if isinstance(given, Unset) or given is None else given
    if about := sorted(HARDWARE & profile.keys()):
        raise errors.BadRequest(
            f"Invalid input for {_PROFILE}. Reason: {about[0]} tells drivers of Neutron about hardware that is not served."
        )
    if len(msgspec.json.encode(profile).decode()) > MAX_PROFILE:
        raise errors.BadRequest(f"Invalid input for {_PROFILE}. Reason: it has more than {MAX_PROFILE} characters.")
    return profile


def _options(bodies: tuple[OptionBody, ...] | Unset | None) -> tuple[OptionChange, ...]:
    if isinstance(bodies, Unset) or bodies is None:
        return ()
    return tuple(OptionChange(**msgspec.structs.asdict(body)) for body in bodies)


def add(api: NetworkApiCollaborators, call: Call, new: Sequence[NewPort]) -> list[dict[str, Any]]:
    if len(new) == 1 and not new[0].tags:  # conductors of the last release have no create_ports
        created_ports: Sequence[Port] = [
            api.conductor.create_port(call.ctx, port=new[0].port, fixed_ips=new[0].fixed_ips)
        ]
    else:
        created_ports = api.conductor.create_ports(call.ctx, ports=tuple(new))
    return [view(call, port) for port in created_ports]


# The attributes of `PortChanges` that a port keeps as they are given or parsed.
_CHANGING = frozenset(
    {
        *("name", "description", "admin_state_up", "mac_address", "device_id", "device_owner", "host"),
        *("security_groups", "port_security_enabled", "allowed_address_pairs"),
    }
)


def update(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    body: PortChanges = call.body.port
    _require_defaults(body)
    changes = {name: value for name, value in common.given_fields(body).items() if name in _CHANGING}
    if "security_groups" in changes:
        changes["security_groups"] = _groups(api, call, body.security_groups or ())
    if "allowed_address_pairs" in changes:
        changes["allowed_address_pairs"] = _pairs(body.allowed_address_pairs)
    fixed_ips = _requests(body.fixed_ips)
    common.check_texts("port's", changes, "device_id", "device_owner")
    if "mac_address" in changes:
        changes["mac_address"] = addresses.parse_mac(changes["mac_address"])
    if "host" in changes:
        changes["host"] = common.checked_text(_HOST, changes["host"] or "")
    if not isinstance(body.profile, Unset):
        changes["binding_profile"] = _profile(body.profile)

    def attempt() -> Port:
        port = find(api, call)
        # Even on a network of the caller's: only the project of a port decides on what protects its guest.
        call.require_for(Target(project_id=port.project_id))
        with api.db.read() as session:
            network = stored_networks.find(session, port.network_id)
        if network is None:
            raise errors.PortNotFound(f"Port {port.id} could not be found.")
        _require_choices(call, "update_port", network, body, fixed_ips)
        _require_security_choices(call, "update_port", network, body.port_security_enabled, body.allowed_address_pairs)
        common.require_revision(call, port)
        options = dhcp_options.changed(port.extra_dhcp_opts, _options(body.extra_dhcp_opts))
        changed = msgspec.structs.replace(port, **changes, extra_dhcp_opts=options)
        return api.conductor.update_port(call.ctx, port=changed, fixed_ips=fixed_ips)

    return common.shown(api, call, "port", view(call, common.change(attempt)))


def delete(api: NetworkApiCollaborators, call: Call) -> None:
    """The owner of the port's network may delete it, too."""
    port = find(api, call)
    if port.network_owner != call.ctx.project_id:
        call.require_for(Target(project_id=port.project_id))
    api.conductor.delete_port(call.ctx, port_id=port.id, **common.revision_argument(call))


def _requests(bodies: tuple[FixedIpBody, ...] | Unset) -> tuple[AddressRequest, ...] | None:
    if isinstance(bodies, Unset):
        return None
    if len(bodies) > MAX_ADDRESSES:
        raise errors.BadRequest(f"Invalid input for fixed_ips. Reason: a port may have {MAX_ADDRESSES} addresses.")
    for body in bodies:
        if body.subnet_id is None and body.ip_address is None:
            raise errors.BadRequest("Invalid input for fixed_ips. Reason: it needs a subnet_id or an ip_address.")
        if body.ip_address is not None:
            addresses.parse_address("ip_address", body.ip_address)
    return tuple(AddressRequest(subnet_id=body.subnet_id, ip_address=body.ip_address) for body in bodies)


def _require_choices(
    call: Call,
    rule: str,
    network: Network,
    body: NewPortBody | PortChanges,
    fixed_ips: tuple[AddressRequest, ...] | None,
) -> None:
    """Raises Forbidden if the caller sets what only the owner of the network, or an administrator, may choose."""
    chooses = any(request.ip_address is not None for request in fixed_ips or ())
    # The subnets of a shared network are for all projects.
    names = bool(fixed_ips) and not chooses and not network.shared
    attributes = {
        "mac_address": not isinstance(body.mac_address, Unset),
        # As in Neutron: only the owner of the network makes ports that look like a part of it.
        "device_owner": not isinstance(body.device_owner, Unset) and body.device_owner.startswith("network:"),
        "fixed_ips:ip_address": chooses,
        "fixed_ips:subnet_id": names,
    }
    common.require_each(call, rule, attributes, Target(project_id=network.project_id))
    limited = {_HOST: body.host, _PROFILE: body.profile}
    common.require_each(call, rule, {name: not isinstance(value, Unset) for name, value in limited.items()})


def _require_security_choices(
    call: Call,
    rule: str,
    network: Network,
    port_security: bool | Unset,
    pairs: tuple[PairBody, ...] | Unset | None,
) -> None:
    """Raises Forbidden if the caller may not let a guest send from other addresses: only the owner of the
    network may.
    """
    attributes = {
        "port_security_enabled": not isinstance(port_security, Unset),
        "allowed_address_pairs": not isinstance(pairs, Unset) and bool(pairs),
    }
    common.require_each(call, rule, attributes, Target(project_id=network.project_id))


def _groups(
    api: NetworkApiCollaborators, call: Call, group_ids: tuple[str, ...] | Unset | None
) -> tuple[str, ...] | None:
    """Returns the ids of the groups; None: the default group. Raises SecurityGroupNotFound also for another project's
    group.
    """
    if isinstance(group_ids, Unset) or group_ids is None:
        return None
    if len(group_ids) > MAX_GROUPS:
        raise errors.BadRequest(f"Invalid input for security_groups. Reason: a port may have {MAX_GROUPS}.")
    return tuple(dict.fromkeys(security_groups.find(api, call, group_id).id for group_id in group_ids))


def _pairs(bodies: tuple[PairBody, ...] | Unset | None) -> tuple[AddressPair, ...]:
    """Raises BadRequest if an address is invalid."""
    if isinstance(bodies, Unset) or bodies is None:
        return ()
    if len(bodies) > MAX_PAIRS:
        raise errors.BadRequest(f"Invalid input for allowed_address_pairs. Reason: a port may have {MAX_PAIRS}.")
    pairs = [
        AddressPair(
            ip_address=addresses.parse_range("allowed_address_pairs", body.ip_address),
            mac_address="" if body.mac_address is None else addresses.parse_mac(body.mac_address),
        )
        for body in bodies
    ]
    if len(set(pairs)) < len(pairs):
        raise errors.BadRequest("Invalid input for allowed_address_pairs. Reason: one stands there twice.")
    return tuple(pairs)


def find(api: NetworkApiCollaborators, call: Call) -> Port:
    """Raises PortNotFound also for a port that is neither the caller's nor on a network of the caller's."""
    port_id = call.path["port_id"]
    with api.db.read() as session:
        port = ports.find(session, common.identifier(port_id))
    own = port is not None and call.ctx.project_id in (port.project_id, port.network_owner)
    if port is None or not (own or call.ctx.is_admin):
        raise errors.PortNotFound(f"Port {port_id[:255]} could not be found.")
    return port


def view(call: Call, port: Port) -> dict[str, Any]:
    return {
        **common.standard(port),
        "network_id": port.network_id,
        "admin_state_up": port.admin_state_up,
        "status": port.status,
        "mac_address": port.mac_address,
        "fixed_ips": port.fixed_ips,
        "device_id": port.device_id,
        "device_owner": port.device_owner,
        "security_groups": port.security_groups or (),
        "port_security_enabled": port.port_security_enabled,
        "allowed_address_pairs": [
            {"ip_address": pair.ip_address, "mac_address": pair.mac_address or port.mac_address}
            for pair in port.allowed_address_pairs
        ],
        "extra_dhcp_opts": port.extra_dhcp_opts,
        _VNIC_TYPE: NORMAL,
        **{name: value for name, value in _binding(port).items() if call.permits(f"get_port:{name}")},
    }


def _binding(port: Port) -> dict[str, Any]:
    """Returns what administrators see of the port on its host."""
    return {
        _HOST: port.host,
        _PROFILE: port.binding_profile,
        "binding:vif_type": "bridge" if port.host else "unbound",
        "binding:vif_details": {"port_filter": True} if port.host else {},
    }


ROUTES: tuple[Route, ...] = Resource(
    name="port",
    answer=PortAnswer,
    index=list_ports,
    query=PortsQuery,
    creation=Creation(fields=NewPortBody, new=new, add=add),
    show=show,
    update=update,
    changes=UpdatePort,
    delete=delete,
).routes()
