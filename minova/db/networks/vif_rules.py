"""The rules of ports, derived from their security groups, in the form that hosts need."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy.orm import Session

from minova.codecs import Decoder
from minova.db.models import Port
from minova.db.networks import address_groups, group_members, security_groups
from minova.db.networks.security_groups import RuleWithRemote
from minova.objects.network.address_groups import of_version
from minova.objects.network.dhcp_options import DhcpOption
from minova.objects.network.network import IP_VERSIONS, AddressPair
from minova.objects.network.security_rules import normalized
from minova.objects.network.vif import MAX_RANGES, GroupMembers, VifRule, reaching, within_bound

OPTIONS = Decoder(tuple[DhcpOption, ...])
LOG = logging.getLogger(__name__)


class ServerPort(NamedTuple):
    """A port that a server has, and its network: columns of their rows."""

    id: int
    uuid: str
    instance_uuid: str
    nic: int | None
    mac_address: str
    status: str
    tag: str | None
    admin_state_up: bool
    port_security_enabled: bool
    allowed_address_pairs: list[Any] | None
    extra_dhcp_opts: list[Any] | None
    project_id: str
    network_id: int
    network_uuid: str
    network_name: str
    network_type: str
    physical_network: str | None
    segmentation_id: int | None
    mtu: int
    reachable: bool
    network_owner: str
    shared: bool


def pairs_of(port: Port | ServerPort) -> tuple[AddressPair, ...]:
    return group_members.PAIRS.from_builtins(port.allowed_address_pairs or [])


def of_ports(
    session: Session, ports: Sequence[ServerPort], *, members_now: bool = False
) -> dict[int, tuple[VifRule, ...]]:
    """Returns the rules of the ports that have port security, by the ports' row ids. A remote group is replaced by its
    members' addresses, an address group by its ranges.

    `members_now`: reads the current members. Otherwise they may be some seconds old.

    A port on a `local` network cannot be reached from other networks, so its rules leave out members there. Rules with
    too many ranges let nothing through.
    """
    secured = [port for port in ports if port.port_security_enabled]
    groups = security_groups.of_ports(session, {port.id for port in secured})
    rules: dict[int, list[RuleWithRemote]] = {}
    remote_by_row: dict[int, tuple[str, int]] = {}
    with_rules = {group for of_port in groups.values() for group, _ in of_port}
    for rule in security_groups.rules_with_remotes(session, with_rules):
        rules.setdefault(rule.group_id, []).append(rule)
        if rule.remote_group_id is not None:
            remote_by_row[rule.remote_group_id] = (str(rule.remote_uuid), int(rule.remote_revision or 0))
    members = (
        group_members.read(session, remote_by_row) if members_now else group_members.read_recent(session, remote_by_row)
    )
    named_ranges = {rule.remote_address_group_id for of_group in rules.values() for rule in of_group} - {None}
    # Split once: rules name a group again and again, for each set of groups that ports have.
    ranges = {
        (row_id, version): of_version(addresses, version)
        for row_id, addresses in address_groups.addresses_of(session, named_ranges).items()
        for version in IP_VERSIONS.values()
    }
    # Most ports of a project have the same groups.
    rules_by_groups: dict[tuple[tuple[int, ...], str], tuple[VifRule, ...]] = {}
    rules_by_port: dict[int, tuple[VifRule, ...]] = {}
    for port in secured:
        reach = reaching(port.network_type, port.network_uuid)
        of_port = tuple(group for group, _ in groups.get(port.id, ()))
        if (of_port, reach) not in rules_by_groups:
            every = (_vif_rule(rule, members, ranges, reach) for group in of_port for rule in rules.get(group, ()))
            rules_by_groups[of_port, reach] = tuple(dict.fromkeys(every))
        rules_by_port[port.id] = _bounded(port, rules_by_groups[of_port, reach])
    return rules_by_port


def _bounded(port: ServerPort, every: tuple[VifRule, ...]) -> tuple[VifRule, ...]:
    """Drops rules that exceed the bound. A rule that names a group stays without addresses: the group may have fewer
    members soon.
    """
    bounded_rules = within_bound(every)
    if len(bounded_rules) == len(every):
        return bounded_rules
    LOG.warning(
        "Port %s: %d of the %d rules of its security groups let nothing through: with the addresses of their groups' "
        "members there are more than %d ranges",
        port.uuid,
        len(every) - len(bounded_rules),
        len(every),
        MAX_RANGES,
    )
    empty = [rule for rule in every if rule.remote_group and rule not in bounded_rules]
    return (*bounded_rules, *(msgspec.structs.replace(rule, remotes=(), revision=0) for rule in empty))


def _vif_rule(
    rule: RuleWithRemote,
    members: Mapping[int, GroupMembers],
    ranges: Mapping[tuple[int, int], tuple[str, ...]],
    network_id: str,
) -> VifRule:
    version = IP_VERSIONS[rule.ethertype]
    remotes: tuple[str, ...] | None = None
    if (prefix := normalized(rule.remote_ip_prefix)) is not None:
        remotes = (prefix,)
    if rule.remote_address_group_id is not None:
        remotes = ranges.get((rule.remote_address_group_id, version), ())
    remote = None
    if rule.remote_group_id is not None:
        remote = members.get(rule.remote_group_id)
        remotes = () if remote is None else remote.ranges(network_id, version)
    return VifRule(
        direction=rule.direction,
        ip_version=version,
        protocol=rule.protocol,
        port_min=rule.port_range_min,
        port_max=rule.port_range_max,
        remotes=remotes,
        remote_group="" if remote is None else remote.group_id,
        revision=0 if remote is None else remote.revision,
    )
