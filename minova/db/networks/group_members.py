"""The members of security groups: the addresses of their ports, as ranges for the rules that name the groups."""

import ipaddress
import time
import weakref
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import select, update
from sqlalchemy.engine import Engine
from sqlalchemy.orm import Session

from minova.codecs import Decoder
from minova.db.engine import when_committed
from minova.db.models import IpAllocation, Network, Port, PortSecurityGroup, SecurityGroup
from minova.db.sql import chunked, in_list
from minova.objects.network.network import LOCAL, AddressPair
from minova.objects.network.vif import MAX_RANGES, GroupMembers, MemberRanges

PAIRS = Decoder(tuple[AddressPair, ...])
# Seconds for which members that were read may be used again. A conductor that makes a change sends it to the hosts within that
# time. If that conductor dies before, hosts ask for the change within a minute.
RECENT = 10.0
_BY_ID = select(SecurityGroup.id, SecurityGroup.uuid, SecurityGroup.members_revision).where(in_list(SecurityGroup.id))
_IDS = select(SecurityGroup.id).where(in_list(SecurityGroup.uuid))
_NUMBERS = select(SecurityGroup.uuid, SecurityGroup.members_revision).where(in_list(SecurityGroup.uuid))
_ADDRESSES = (
    select(PortSecurityGroup.group_id, Port.network_id, IpAllocation.address)
    .join(Port, Port.id == PortSecurityGroup.port_id)
    .join(IpAllocation, IpAllocation.port_id == Port.id)
    .where(in_list(PortSecurityGroup.group_id))
)
_PAIRED = (
    select(PortSecurityGroup.group_id, Port.network_id, Port.allowed_address_pairs)
    .join(Port, Port.id == PortSecurityGroup.port_id)
    .where(in_list(PortSecurityGroup.group_id), Port.has_address_pairs)
)
_LOCAL = select(Network.id, Network.uuid).where(in_list(Network.id), Network.network_type == LOCAL)


class _MembersReading(NamedTuple):
    at: float
    members: GroupMembers


# A cache for each database: what was read last of each group, by row id. Every build needs the members of its groups.
_recent: "weakref.WeakKeyDictionary[Engine, dict[int, _MembersReading]]" = weakref.WeakKeyDictionary()


def read(session: Session, group_ids: Collection[int]) -> dict[int, GroupMembers]:
    """Returns the current members, by the ids of the groups' rows."""
    engine, begun = session.get_bind().engine, time.monotonic()
    members_by_group: dict[int, GroupMembers] = {}
    for chunk in chunked(sorted(group_ids)):
        values = {"some": chunk}
        # Read the numbers first: the members are then at least as new as their number.
        groups = session.execute(_BY_ID, values).all()
        members: dict[int, set[tuple[int, str]]] = {}
        for group_id, network_id, address in session.execute(_ADDRESSES, values):
            members.setdefault(group_id, set()).add((network_id, address))
        for group_id, network_id, pairs in session.execute(_PAIRED, values):
            for pair in PAIRS.from_builtins(pairs or []):
                members.setdefault(group_id, set()).add((network_id, pair.ip_address))
        networks = {network_id for of_group in members.values() for network_id, _ in of_group}
        local: dict[int, str] = dict(list(session.execute(_LOCAL, {"some": sorted(networks)})))
        for group_id, uuid, revision in groups:
            ranges = _by_network(members.get(group_id, ()), local)
            members_by_group[group_id] = GroupMembers(group_id=uuid, revision=revision, members=ranges)
    if session.connection().get_execution_options().get("minova_reads"):
        _remember(engine, begun, members_by_group)
    else:  # the transaction may still roll back what it has written, so share it only after the commit
        when_committed(session, lambda: _remember(engine, begun, members_by_group))
    return members_by_group


def read_recent(session: Session, groups: Mapping[int, tuple[str, int]]) -> dict[int, GroupMembers]:
    """As `read`, but up to RECENT seconds old. Hosts that already had the groups' rules receive the changes that it
    misses.

    `groups`: ids and numbers of the groups as they were just read, by row id. If a number is higher than the cached
    one, hosts have already received the change, perhaps from another conductor and perhaps without the host for which
    this is read. Then the members are read anew.
    """
    since = time.monotonic() - RECENT
    recent = _recent.get(session.get_bind().engine, {})
    # The ids are compared, too: SQLite gives a new group the row id of a deleted one.
    cached = {
        row_id: last.members
        for row_id, current in groups.items()
        if (last := recent.get(row_id)) is not None
        and last.at >= since
        and current == (last.members.group_id, last.members.revision)
    }
    missing = groups.keys() - cached.keys()
    return cached | read(session, missing) if missing else cached


def _remember(engine: Engine, at: float, members_by_group: Mapping[int, GroupMembers]) -> None:
    recent = {row_id: last for row_id, last in _recent.get(engine, {}).items() if last.at >= at - RECENT}
    _recent[engine] = recent | {row_id: _MembersReading(at, members) for row_id, members in members_by_group.items()}


def number(session: Session, uuids: Collection[str]) -> dict[str, int]:
    """Gives the members of these groups new numbers. Returns {group id: number}. Groups that have been deleted are left
    out.

    Members that are read after this is committed may have the new number: changes that they miss get a higher number.
    """
    numbers: dict[str, int] = {}
    for chunk in chunked(sorted(uuids)):
        ids = sorted(session.scalars(_IDS, {"some": chunk}))
        for row_id in ids:  # always in the same order, so that two transactions cannot deadlock
            raised = update(SecurityGroup).where(SecurityGroup.id == row_id)
            session.connection().execute(raised.values(members_revision=SecurityGroup.members_revision + 1))
        numbers.update((uuid, revision) for uuid, revision in session.execute(_NUMBERS, {"some": chunk}))
    return numbers


def of_numbers(session: Session, numbers: Mapping[str, int]) -> dict[str, GroupMembers]:
    """Returns the members of groups with these numbers, by group id, to be sent to hosts. The numbers must be
    committed.

    A member list with more ranges than one port may have is left out.
    """
    ids: set[int] = set()
    for chunk in chunked(sorted(numbers)):
        ids |= set(session.scalars(_IDS, {"some": chunk}))
    members_by_uuid = {of_group.group_id: of_group for of_group in read(session, ids).values()}
    return {
        uuid: GroupMembers(
            group_id=uuid,
            revision=numbers[uuid],
            members=tuple(of_network for of_network in of_group.members if len(of_network.ranges) <= MAX_RANGES),
        )
        for uuid, of_group in members_by_uuid.items()
    }


def _by_network(members: Iterable[tuple[int, str]], local: Mapping[int, str]) -> tuple[MemberRanges, ...]:
    """Returns the members on each local network, and all members together for the other networks."""
    every: dict[str, set[tuple[int, int, int]]] = {"": set()}
    for network_id, address in members:
        span = _span(address)
        every[""].add(span)
        if network_id in local:
            every.setdefault(local[network_id], set()).add(span)
    return tuple(
        MemberRanges(network_id=network, ip_version=version, ranges=ranges)
        for network, spans in sorted(every.items())
        for version in (4, 6)
        if (ranges := _ranges(spans, version))
    )


def _ranges(spans: Collection[tuple[int, int, int]], version: int) -> tuple[str, ...]:
    """Merges the addresses into as few ranges as possible: each range costs the host a rule."""
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
    """Returns IP version, first and last address. Cached: each change of a large group parses all its members again."""
    block = ipaddress.ip_network(text)
    return block.version, int(block.network_address), int(block.broadcast_address)
