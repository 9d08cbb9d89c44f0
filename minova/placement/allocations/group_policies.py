"""Hard policies of server groups, checked together with the claim: the group's row is locked until the claim is
committed.

A member counts on the hosts where it holds allocations, or where a move holds some for it: it may still go back. So a
release frees its place automatically. A stale release is rejected as a whole, so it cannot free the place of a newer claim.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from minova.db.models import Allocation, ComputeNode, Migration, ResourceProvider
from minova.db.models import InstanceGroup as Row
from minova.db.models import InstanceGroupMember as Member
from minova.db.sql import in_list
from minova.objects.catalogue.instance_group import AFFINITY, ANTI_AFFINITY, InstanceGroup

_HARD = (AFFINITY, ANTI_AFFINITY)

_LOCK: Any = (
    select(Row.id, Row.uuid, Row.name, Row.policy, Row.rules)
    .where(in_list(Row.id), Row.policy.in_(_HARD))
    .order_by(Row.id)
    # Inserting new members, whose rows refer to the group, need not wait.
    .with_for_update(key_share=True)
)
_PLACES: Any = (
    select(Member.group_id, Member.instance_uuid, func.coalesce(ComputeNode.host, ResourceProvider.name))
    .join(Allocation, Allocation.consumer_uuid == Member.instance_uuid)
    .join(ResourceProvider, ResourceProvider.id == Allocation.provider_id)
    .outerjoin(ComputeNode, ComputeNode.uuid == ResourceProvider.uuid)
    .where(in_list(Member.group_id))
    .distinct()
)
# The same for what moves of the members hold.
_PLACES_OF_MOVES: Any = (
    select(Member.group_id, Member.instance_uuid, func.coalesce(ComputeNode.host, ResourceProvider.name))
    .join(Migration, Migration.instance_uuid == Member.instance_uuid)
    .join(Allocation, Allocation.consumer_uuid == Migration.uuid)
    .join(ResourceProvider, ResourceProvider.id == Allocation.provider_id)
    .outerjoin(ComputeNode, ComputeNode.uuid == ResourceProvider.uuid)
    .where(in_list(Member.group_id))
    .distinct()
)


class LockedGroup(msgspec.Struct, kw_only=True):
    """A group while claims are checked against it. `places`: {member: hosts} of each member that has any."""

    group: InstanceGroup
    places: dict[str, set[str]]


class GroupPolicies:
    """The policies of the groups in `group_ids`, {consumer: group id}. Locks the groups that have a hard policy."""

    def __init__(self, session: Session, group_ids: Mapping[str, int]) -> None:
        self._group_ids = group_ids
        self._held = _lock(session, sorted(set(group_ids.values()))) if group_ids else {}

    def refusals(self, consumer_uuid: str, host: str) -> list[str]:
        """Returns the reasons why this consumer may not be on this host; empty if it may."""
        group = self._held.get(self._group_ids.get(consumer_uuid, 0))
        # A member keeps the host that it already has.
        if group is None or host in group.places.get(consumer_uuid, ()):
            return []
        others = [hosts for member, hosts in group.places.items() if member != consumer_uuid]
        reason = refusal(group.group, others, host)
        return [] if reason is None else [reason]

    def place(self, consumer_uuid: str, host: str) -> None:
        """Counts the consumer on this host, and nowhere else, from now on."""
        group = self._held.get(self._group_ids.get(consumer_uuid, 0))
        if group is not None:
            group.places[consumer_uuid] = {host}


def refusal(group: InstanceGroup, others: list[set[str]], host: str) -> str | None:
    """Returns the reason why a hard policy forbids one more member on this host; None if it does not. `others`: the
    hosts of each of the other members.
    """
    if group.policy == ANTI_AFFINITY:
        there, limit = sum(host in hosts for hosts in others), group.most_per_host or 1
        if there < limit:
            return None
        return f"{there} of server group {_group_name(group)} on the host, and {group.policy} allows {limit}"
    elsewhere = sorted(set().union(*others) - {host})
    if not elsewhere:
        return None
    return f"server group {_group_name(group)} is on {', '.join(elsewhere)}, and {group.policy} allows no other host"


def _group_name(group: InstanceGroup) -> str:
    return f"{group.name} ({group.uuid})"


def _lock(session: Session, group_ids: list[int]) -> dict[int, LockedGroup]:
    connection = session.connection()
    locked_groups = {
        row[0]: LockedGroup(
            group=InstanceGroup(
                uuid=row[1], name=row[2], policy=row[3], max_server_per_host=row[4].get("max_server_per_host")
            ),
            places={},
        )
        for row in connection.execute(_LOCK, {"some": group_ids})
    }
    if locked_groups:
        # Read only now: a read before the lock would miss what the previous holder of the lock has written.
        for statement in (_PLACES, _PLACES_OF_MOVES):
            for group_id, member, host in connection.execute(statement, {"some": sorted(locked_groups)}):
                locked_groups[group_id].places.setdefault(member, set()).add(host)
    return locked_groups
