"""What ports let through, by the rules of their security groups, as hosts need it."""

import ipaddress
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.codecs import Decoder
from minova.db.models import IpAllocation, Network, Port, PortSecurityGroup, SecurityGroupRule
from minova.db.networks import security_groups
from minova.db.sql import chunked
from minova.objects.network import IP_VERSIONS, LOCAL, AddressPair
from minova.objects.vif import MOST_RANGES, VifRule, within_bound

LOG = logging.getLogger(__name__)
_PAIRS = Decoder(tuple[AddressPair, ...])


class Member(NamedTuple):
    """An address of a port of a group."""

    group_id: int
    network_id: int
    range: str


def pairs_of(port: Port) -> tuple[AddressPair, ...]:
    return _PAIRS.from_builtins(port.allowed_address_pairs or [])


def of_ports(session: Session, ports: Sequence[tuple[Port, Network]]) -> dict[int, tuple[VifRule, ...]]:
    """By the ids of the ports' rows, of those with port security. A remote group is replaced by its members' addresses.

    Members on other networks do not reach a port on a `local` network, and do not stand in its rules. Rules of too many
    ranges let nothing through.
    """
    secured = [(port, network) for port, network in ports if port.port_security_enabled]
    groups = security_groups.of_ports(session, {port.id for port, _ in secured})
    rules: dict[int, list[SecurityGroupRule]] = {}
    for rule in security_groups.rules_of(session, {group for of_port in groups.values() for group, _ in of_port}):
        rules.setdefault(rule.group_id, []).append(rule)
    named = {rule.remote_group_id for of_group in rules.values() for rule in of_group}
    members = _members(session, {group for group in named if group is not None})
    known: dict[tuple[int, int | None, int], tuple[str, ...]] = {}
    return {
        port.id: _bounded(
            port,
            dict.fromkeys(
                _vif_rule(rule, members, network.id if network.network_type == LOCAL else None, known)
                for group, _ in groups.get(port.id, ())
                for rule in rules.get(group, ())
            ),
        )
        for port, network in secured
    }


def _bounded(port: Port, rules: Iterable[VifRule]) -> tuple[VifRule, ...]:
    every = tuple(rules)
    kept = within_bound(every)
    if len(kept) < len(every):
        LOG.warning(
            "Port %s: %d of the %d rules of its security groups let nothing through: with the addresses of their groups' "
            "members there are more than %d ranges",
            port.uuid,
            len(every) - len(kept),
            len(every),
            MOST_RANGES,
        )
    return kept


def _vif_rule(
    rule: SecurityGroupRule,
    members: Mapping[int, Sequence[Member]],
    network_id: int | None,
    known: dict[tuple[int, int | None, int], tuple[str, ...]],
) -> VifRule:
    version = IP_VERSIONS[rule.ethertype]
    remotes: tuple[str, ...] | None = None if rule.remote_ip_prefix is None else (rule.remote_ip_prefix,)
    if rule.remote_group_id is not None:
        key = (rule.remote_group_id, network_id, version)
        if key not in known:
            known[key] = _ranges(members.get(rule.remote_group_id, ()), network_id, version)
        remotes = known[key]
    return VifRule(
        direction=rule.direction,
        ip_version=version,
        protocol=rule.protocol,
        port_min=rule.port_range_min,
        port_max=rule.port_range_max,
        remotes=remotes,
    )


def _ranges(members: Sequence[Member], network_id: int | None, version: int) -> tuple[str, ...]:
    """As few as possible: each costs the host a rule."""
    spans = {_span(one.range) for one in members if network_id is None or one.network_id == network_id}
    merged: list[tuple[int, int]] = []
    for _, first, last in sorted(span for span in spans if span[0] == version):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    address: Any = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
    return tuple(
        str(block)
        for first, last in merged
        for block in ipaddress.summarize_address_range(address(first), address(last))
    )


@lru_cache(maxsize=16384)
def _span(text: str) -> tuple[int, int, int]:
    """IP version, first and last address. Remembered: each change of a large group asks for all its members again."""
    block = ipaddress.ip_network(text)
    return block.version, int(block.network_address), int(block.broadcast_address)


def _members(session: Session, group_ids: Collection[int]) -> dict[int, list[Member]]:
    found: dict[int, list[Member]] = {}
    of_port = PortSecurityGroup
    for chunk in chunked(sorted(group_ids)):
        addresses = select(of_port.group_id, Port.network_id, IpAllocation.address).join(
            Port, Port.id == of_port.port_id
        )
        addresses = addresses.join(IpAllocation, IpAllocation.port_id == Port.id).where(of_port.group_id.in_(chunk))
        for row in session.execute(addresses):
            found.setdefault(row[0], []).append(Member(*row))
        paired = select(of_port.group_id, Port).join(Port, Port.id == of_port.port_id)
        for group_id, port in session.execute(paired.where(of_port.group_id.in_(chunk), Port.has_address_pairs)):
            pairs = [Member(group_id, port.network_id, pair.ip_address) for pair in pairs_of(port)]
            found.setdefault(group_id, []).extend(pairs)
    return found
