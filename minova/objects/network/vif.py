"""A server's interface on a network, with everything that its host needs."""

from collections.abc import Mapping, Sequence
from ipaddress import ip_network
from typing import Any

import msgspec

from minova.objects.network.addresses import is_servable
from minova.objects.network.dhcp_options import DhcpOption
from minova.objects.network.network import AUTOMATIC, LOCAL, AddressPair, HostRoute
from minova.objects.network.physical_networks import segment_of

# The maximum for one port on its host: each range costs one or two iptables commands, and libvirt accepts descriptions
# of up to 4 MiB.
MAX_RANGES = 2000
# The prefix of `device_owner` of servers' ports.
OWNER = "compute:"
# The maximum number of interfaces of one server.
MAX_NICS = 16
# `RequestedNic.service` and `Vif.network_type` of an interface whose port is in Neutron.
NEUTRON = "neutron"
# `VifSubnet.served` of IPv4.
DHCP = "dhcp"
# Values of `vif_type` of ports that no agent has bound to their host.
UNBOUND = ("", "unbound", "binding_failed")


class VifSubnet(msgspec.Struct, frozen=True, kw_only=True):
    """A subnet of the network. `gateway_ip` None: there is none. `ipv6_mode`: one of Neutron's; empty: none."""

    id: str
    cidr: str
    gateway_ip: str | None = None
    enable_dhcp: bool = True
    dns_nameservers: tuple[str, ...] = ()
    host_routes: tuple[HostRoute, ...] = ()
    ipv6_mode: str = ""

    @property
    def ip_version(self) -> int:
        return ip_network(self.cidr).version

    @property
    def served(self) -> str:
        """Returns how hosts give guests their addresses: DHCP, a mode of IPv6, or nothing. An IPv6 subnet without a mode
        has no router advertisements, by which guests would learn how.
        """
        block = ip_network(self.cidr)
        if not self.enable_dhcp:
            return ""
        if block.version == 4:
            return DHCP
        # Rows of earlier releases may have ranges for which there are no advertisements.
        return self.ipv6_mode if is_servable(block.prefixlen, self.ipv6_mode) else ""


class VifAddress(msgspec.Struct, frozen=True, kw_only=True):
    subnet_id: str
    ip_address: str


class VifRule(msgspec.Struct, frozen=True, kw_only=True):
    """Traffic that a security group allows.

    `protocol` None: any.
    `port_min`, `port_max`: ports, or ICMP's type and code.
    `remotes`: ranges; None: any address.
    `remote_group`: the id of the group whose members' ranges these are.
    `revision`: as in `GroupMembers`; 0: any message about the members is newer.
    """

    direction: str
    ip_version: int
    protocol: str | None = None
    port_min: int | None = None
    port_max: int | None = None
    remotes: tuple[str, ...] | None = None
    remote_group: str = ""
    revision: int = 0

    @property
    def ranges(self) -> int:
        """Returns how many rules of the host this rule becomes."""
        return 1 if self.remotes is None else len(self.remotes)


def within_bound(rules: Sequence[VifRule]) -> tuple[VifRule, ...]:
    """Returns rules that together become at most MAX_RANGES rules of the host. Drops the rules with the most ranges
    first.
    """
    if sum(rule.ranges for rule in rules) <= MAX_RANGES:
        return tuple(rules)
    bounded_rules: list[VifRule] = []
    ranges_left = MAX_RANGES
    for rule in sorted(rules, key=lambda rule: rule.ranges):
        if rule.ranges > ranges_left:
            break
        ranges_left -= rule.ranges
        bounded_rules.append(rule)
    return tuple(bounded_rules)


class MemberRanges(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses of a group's members, of one IP version. `network_id`: on this `local` network; empty: on all
    networks.
    """

    network_id: str = ""
    ip_version: int
    ranges: tuple[str, ...]


class GroupMembers(msgspec.Struct, frozen=True, kw_only=True):
    """All members of a security group. Of two messages, the one with the higher `revision` was read later."""

    group_id: str
    revision: int
    members: tuple[MemberRanges, ...] = ()

    def ranges(self, network_id: str, ip_version: int) -> tuple[str, ...]:
        """Returns the ranges of the `MemberRanges` for this network and IP version."""
        key = (network_id, ip_version)
        return next((member.ranges for member in self.members if (member.network_id, member.ip_version) == key), ())


class Vif(msgspec.Struct, frozen=True, kw_only=True):
    """`subnets`: all subnets of the network, as they were when this was read.

    `reachable`: the host has routes to the subnets of the `local` network.
    `rules`: of the port's security groups; None: no security group restricts it.
    `hostname`: of the instance, if nothing else gives it.
    `dns_domain`: in which the resolver of the network knows the instance: see `guest_names`.
    `pending_delete`: the port was taken from the instance, but its guest may still have it.
    `vif_type`, `vif_details`, `active`: of a port in Neutron, as Neutron has bound it. `active`: its agent has wired it
    on the host.
    `tag`: by which the guest finds it in its metadata.
    `extra_dhcp_opts`: for its guest, beside those of the subnets.
    """

    port_id: str
    mac_address: str
    network_id: str
    network_name: str = ""
    network_type: str = LOCAL
    physical_network: str | None = None
    segmentation_id: int | None = None
    mtu: int = 1500
    reachable: bool = False
    admin_state_up: bool = True
    addresses: tuple[VifAddress, ...] = ()
    subnets: tuple[VifSubnet, ...] = ()
    port_security_enabled: bool = True
    allowed_address_pairs: tuple[AddressPair, ...] = ()
    rules: tuple[VifRule, ...] | None = None
    hostname: str = ""
    dns_domain: str = ""
    pending_delete: bool = False
    vif_type: str = ""
    vif_details: dict[str, Any] = {}
    active: bool = True
    tag: str | None = None
    extra_dhcp_opts: tuple[DhcpOption, ...] = ()

    @property
    def served_addresses(self) -> tuple[tuple[VifAddress, str], ...]:
        """Returns the addresses that the guest gets from its host, with the way (see `VifSubnet.served`): all that it makes
        itself, and the first one by each kind of DHCP, since a guest asks for one.
        """
        if self.from_neutron:
            return ()
        ways = {each.id: each.served for each in self.subnets}
        served: list[tuple[VifAddress, str]] = []
        for address in self.addresses:
            way = ways.get(address.subnet_id, "")
            if way and (way in AUTOMATIC or way not in {other for _, other in served}):
                served.append((address, way))
        return tuple(served)

    @property
    def from_neutron(self) -> bool:
        """Whether its port is in Neutron: minova then sets up no network or filter for it."""
        return self.network_type == NEUTRON

    @property
    def segment(self) -> str:
        """Returns the key in `[networks] bridge_mappings` for what carries the network: the physical network, or a VLAN
        of it.
        """
        return str(segment_of(self.network_type, self.physical_network, self.segmentation_id))


def with_members(vif: Vif, members: Mapping[str, GroupMembers]) -> Vif:
    """Replaces the members in the rules by these members (by group id) where these are newer."""
    rules = vif.rules or ()
    if all(_members_after(rule, members) is None for rule in rules):
        return vif
    network_id = reaching(vif.network_type, vif.network_id)
    return msgspec.structs.replace(vif, rules=tuple(_with_members(rule, members, network_id) for rule in rules))


def reaching(network_type: str, network_id: str) -> str:
    """Returns the network whose members can reach a port on this network, in the form of `MemberRanges`. A `local`
    network cannot be reached from any other network.
    """
    return network_id if network_type == LOCAL else ""


def _with_members(rule: VifRule, members: Mapping[str, GroupMembers], network_id: str) -> VifRule:
    newer = _members_after(rule, members)
    if newer is None:
        return rule
    ranges = newer.ranges(network_id, rule.ip_version)
    return msgspec.structs.replace(rule, remotes=ranges, revision=newer.revision)


def _members_after(rule: VifRule, members: Mapping[str, GroupMembers]) -> GroupMembers | None:
    newest = members.get(rule.remote_group)
    return newest if newest is not None and newest.revision > rule.revision else None


def device_owner(availability_zone: str | None) -> str:
    """Returns the `device_owner` of the ports of a server in this zone."""
    return f"{OWNER}{availability_zone or 'nova'}"


def network_name(network_id: str) -> str:
    """Returns the name of a `local` network on its hosts."""
    return f"minova-{network_id}"


def bridge_name(network_id: str) -> str:
    """The kernel accepts at most 15 characters."""
    return f"mn{network_id.replace('-', '')[:12]}"


def tap_name(port_id: str) -> str:
    """In Neutron's form."""
    return f"tap{port_id[:11]}"


def filter_name(port_id: str) -> str:
    """Returns the name of a port's network filter on its host."""
    return f"minova-port-{port_id}"
