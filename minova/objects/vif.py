"""A server's interface on a network, with all that its host must know of it."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from minova.objects.network import LOCAL, AddressPair
from minova.objects.physical_networks import segment_of

# Of one port, on its host: each costs a command of iptables or two, and libvirt takes descriptions of 4 MiB.
MOST_RANGES = 2000
# How `device_owner` of servers' ports begins.
OWNER = "compute:"
# Interfaces of one server.
MOST_NICS = 16
# `RequestedNic.service` and `Vif.network_type` of an interface whose port is in Neutron.
NEUTRON = "neutron"
# `vif_type` of ports that no agent has bound to their host.
UNBOUND = ("", "unbound", "binding_failed")


class VifSubnet(msgspec.Struct, frozen=True, kw_only=True):
    """A subnet of the network. `gateway_ip` None: it has none."""

    id: str
    cidr: str
    gateway_ip: str | None = None
    enable_dhcp: bool = True
    dns_nameservers: tuple[str, ...] = ()


class VifAddress(msgspec.Struct, frozen=True, kw_only=True):
    subnet_id: str
    ip_address: str


class VifRule(msgspec.Struct, frozen=True, kw_only=True):
    """What a security group lets through.

    `protocol` None: any. `port_min`, `port_max`: ports, or ICMP's type and code. `remotes`: ranges; None: any address. `remote_group`:
    whose members' ranges they are, by its id, and `revision`: as `GroupMembers`; 0: what any message says of the members is newer.
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
        """How many rules of the host it becomes."""
        return 1 if self.remotes is None else len(self.remotes)


def within_bound(rules: Sequence[VifRule]) -> tuple[VifRule, ...]:
    """Those that become at most MOST_RANGES rules of the host together. The ones with the most ranges go first."""
    if sum(rule.ranges for rule in rules) <= MOST_RANGES:
        return tuple(rules)
    kept: list[VifRule] = []
    left = MOST_RANGES
    for rule in sorted(rules, key=lambda rule: rule.ranges):
        if rule.ranges > left:
            break
        left -= rule.ranges
        kept.append(rule)
    return tuple(kept)


class MemberRanges(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses of a group's members, of one IP version. `network_id`: on this `local` network; empty: on any network."""

    network_id: str = ""
    ip_version: int
    ranges: tuple[str, ...]


class GroupMembers(msgspec.Struct, frozen=True, kw_only=True):
    """All members of a security group. `revision`: of two messages the one with the higher number has been read later."""

    group_id: str
    revision: int
    members: tuple[MemberRanges, ...] = ()

    def ranges(self, network_id: str, ip_version: int) -> tuple[str, ...]:
        """As `MemberRanges`."""
        key = (network_id, ip_version)
        return next((one.ranges for one in self.members if (one.network_id, one.ip_version) == key), ())


class Vif(msgspec.Struct, frozen=True, kw_only=True):
    """`subnets`: all of the network, as they were when this was read.

    `rules`: of the port's security groups; None: no security group says what it lets through. `hostname`: of the instance, where
    nothing else says it. `going`: the instance has it no more, and its guest may have it still. `vif_type`, `vif_details`, `active`: of
    a port in Neutron, as Neutron has bound it; `active`: its agent has wired it on the host. `tag`: by which the guest finds it in its metadata.
    """

    port_id: str
    mac_address: str
    network_id: str
    network_name: str = ""
    network_type: str = LOCAL
    physical_network: str | None = None
    segmentation_id: int | None = None
    mtu: int = 1500
    admin_state_up: bool = True
    addresses: tuple[VifAddress, ...] = ()
    subnets: tuple[VifSubnet, ...] = ()
    port_security_enabled: bool = True
    allowed_address_pairs: tuple[AddressPair, ...] = ()
    rules: tuple[VifRule, ...] | None = None
    hostname: str = ""
    going: bool = False
    vif_type: str = ""
    vif_details: dict[str, Any] = {}
    active: bool = True
    tag: str | None = None

    @property
    def is_neutrons(self) -> bool:
        """Whether its port is in Neutron: minova keeps no network or filter for it."""
        return self.network_type == NEUTRON

    @property
    def segment(self) -> str:
        """How `[networks] bridge_mappings` names what carries the network: the physical network, or a VLAN of it."""
        return str(segment_of(self.network_type, self.physical_network, self.segmentation_id))


def with_members(vif: Vif, known: Mapping[str, GroupMembers]) -> Vif:
    """Where these members, by the ids of their groups, are newer than those in the rules, they stand there instead."""
    rules = vif.rules or ()
    if all(_members_after(rule, known) is None for rule in rules):
        return vif
    network_id = reaching(vif.network_type, vif.network_id)
    return msgspec.structs.replace(vif, rules=tuple(_with_members(rule, known, network_id) for rule in rules))


def reaching(network_type: str, network_id: str) -> str:
    """On which network members are that reach a port on this one, as `MemberRanges` says it. To a `local` network no other one leads."""
    return network_id if network_type == LOCAL else ""


def _with_members(rule: VifRule, known: Mapping[str, GroupMembers], network_id: str) -> VifRule:
    newer = _members_after(rule, known)
    if newer is None:
        return rule
    ranges = newer.ranges(network_id, rule.ip_version)
    return msgspec.structs.replace(rule, remotes=ranges, revision=newer.revision)


def _members_after(rule: VifRule, known: Mapping[str, GroupMembers]) -> GroupMembers | None:
    newest = known.get(rule.remote_group)
    return newest if newest is not None and newest.revision > rule.revision else None


class RequestedNic(msgspec.Struct, frozen=True, kw_only=True):
    """An interface that a new server shall have: a port that is there, or a new one of a network.

    `security_groups`: ids, for a new port; None: the default group of its project. `segment`: what its host must have a bridge for.
    `service`: which has the network. `tag`: of the interface.
    """

    network_id: str
    segment: str | None = None
    port_id: str | None = None
    ip_address: str | None = None
    security_groups: tuple[str, ...] | None = None
    service: str = ""
    tag: str | None = None


class NewInterface(RequestedNic, frozen=True, kw_only=True):
    """An interface that a server shall have from now on. `id`: of the port that is made for it, if none is named."""

    id: str


def device_owner(availability_zone: str | None) -> str:
    """Of the ports of a server in this zone."""
    return f"{OWNER}{availability_zone or 'nova'}"


def network_name(network_id: str) -> str:
    """Of a `local` network, on its hosts."""
    return f"minova-{network_id}"


def bridge_name(network_id: str) -> str:
    """The kernel takes 15 characters."""
    return f"mn{network_id.replace('-', '')[:12]}"


def tap_name(port_id: str) -> str:
    """Neutron's form."""
    return f"tap{port_id[:11]}"


def filter_name(port_id: str) -> str:
    """Of a port's network filter, on its host."""
    return f"minova-port-{port_id}"
