"""Allocations: where "yes" becomes true. The sum of a class's allocations on a provider is its inventory's `used`.

Lock order of every writer: consumers by uuid, server groups by id, then inventories by (provider, class). Two claims on
one inventory, or of one group with a hard policy, wait for each other; each then counts with what the other left.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from minova import errors
from minova.db.models import Allocation, Consumer
from minova.placement import changes
from minova.placement.allocations import rows
from minova.placement.allocations.group_policies import GroupPolicies
from minova.placement.allocations.rows import Holding, Key, Provider
from minova.placement.limits.inventory_checks import InventoryUsage, refusals
from minova.placement.providers import of_node

# Classes of which a node's inventory is in providers below its own: one for each card.
IN_CHILDREN = frozenset({"VGPU"})


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What one consumer shall hold, instead of all it holds now."""

    consumer_uuid: str
    claim_number: int
    provider_uuid: str
    resources: dict[str, int]
    project_id: str = ""
    user_id: str = ""


def claim(session: Session, claims: Sequence[Claim], now: Any = None, *, all_or_none: bool = False) -> dict[str, str]:
    """Write what fits, in this order; returns {consumer uuid: reason} of the refused ones, which keep what they had.
    `all_or_none`: write no allocation if any of them is refused.

    One claim per consumer. Repeating a claim is fine. StaleClaim: one has a number below what its consumer has seen;
    nothing may be kept of this transaction then.
    """
    if not claims:
        return {}
    session.flush()  # a node that the caller has just made must be found
    numbered = _number(session, claims)
    policies = GroupPolicies(session, numbered.group_ids)
    before = rows.holdings(session, [c.consumer_uuid for c in claims])
    providers = rows.providers_by_uuid(session, {c.provider_uuid for c in claims})
    left = rows.providers_in(before.values())
    below = rows.children_of(session, _roots_to_descend(claims, providers))
    inventories = rows.lock_inventories(
        session, left.union((provider.id for provider in providers.values()), *below.values())
    )
    decided, refused = _decide(claims, before, providers, inventories, policies, below)
    if decided and not (refused and all_or_none):
        _write(session, decided, before, numbered.renumbered)
        entered = {claimed.provider_uuid for claimed in claims if claimed.consumer_uuid in decided}
        node_ids = [providers[uuid].node_id for uuid in entered]
        node_ids += rows.node_ids_of(session, left - {provider.id for provider in providers.values()})
        changes.append(session, [node_id for node_id in node_ids if node_id is not None], now)
    return refused


def release(
    session: Session, consumer_uuids: Iterable[str], now: Any = None, *, claim_number: int | None = None
) -> dict[str, int]:
    """Give back all that these consumers hold. A claim that is still under way is refused from now on (StaleClaim):
    one numbered up to what the consumer has seen, and up to `claim_number` where its number is known.

    Answers the lowest number of each from which claims are taken.
    """
    wanted = sorted(set(consumer_uuids))
    if not wanted:
        return {}
    session.flush()
    if claim_number is not None:
        rows.ensure_consumers(session, [(uuid, claim_number, "", "") for uuid in wanted])
    seen = rows.lock_consumers(session, wanted)
    if not seen:
        return {}
    before = rows.holdings(session, seen)
    if before:
        touched = rows.providers_in(before.values())
        rows.lock_inventories(session, touched)
        rows.change_used(session, Counter(), rows.total(before.values()))
        rows.delete_allocations(session, before)
        changes.append(session, rows.node_ids_of(session, touched), now)
    numbers = {uuid: max(number, claim_number or 0) + 1 for uuid, number in seen.items()}
    rows.renumber(session, numbers)
    return numbers


def forget(session: Session, consumer_uuids: Iterable[str]) -> None:
    """Remove consumers that will never claim again, with their numbers; those that hold anything stay."""
    rows.delete_consumers(session, consumer_uuids)


def consumers_of(session: Session, provider_uuid: str, consumer_type: str | None = None) -> list[str]:
    """The consumers with allocations on this provider or below it, of one type or of all."""
    query = select(Allocation.consumer_uuid).where(Allocation.provider_id.in_(of_node.tree_of(provider_uuid)))
    if consumer_type is not None:
        query = query.join(Consumer, Consumer.uuid == Allocation.consumer_uuid)
        query = query.where(Consumer.consumer_type == consumer_type)
    return sorted(set(session.scalars(query)))


class _Numbered(NamedTuple):
    """By consumer: the id of its server group, where it is in one; its new number, where it has one."""

    group_ids: dict[str, int]
    renumbered: dict[str, int]


def _number(session: Session, claims: Sequence[Claim]) -> _Numbered:
    """Lock the consumers, made where they are new, and note each claim's number; its generation is raised with it.

    Raises StaleClaim if one comes too late.
    """
    rows.ensure_consumers(session, [(c.consumer_uuid, c.claim_number, c.project_id, c.user_id) for c in claims])
    seen, group_ids = rows.lock_consumers_with_groups(session, [c.consumer_uuid for c in claims])
    for wanted in claims:
        if wanted.consumer_uuid not in seen:  # it was there, and went while this waited for its lock
            raise errors.Conflict(f"Consumer {wanted.consumer_uuid} was removed at the same time.")
        if wanted.claim_number < seen[wanted.consumer_uuid]:
            raise errors.StaleClaim(
                f"Claim {wanted.claim_number} of {wanted.consumer_uuid} comes after {seen[wanted.consumer_uuid]}."
            )
    renumbered = {c.consumer_uuid: c.claim_number for c in claims if c.claim_number != seen[c.consumer_uuid]}
    rows.renumber(session, renumbered)
    return _Numbered(group_ids, renumbered)


class _Decided(NamedTuple):
    """By consumer: what it shall hold, or why it shall not."""

    holdings: dict[str, Holding]
    refused: dict[str, str]


def _decide(
    claims: Sequence[Claim],
    before: Mapping[str, Holding],
    providers: Mapping[str, Provider],
    inventories: Mapping[Key, InventoryUsage],
    policies: GroupPolicies,
    below: Mapping[int, Sequence[int]],
) -> _Decided:
    """One claim after the other, counting with those before."""
    decided: dict[str, Holding] = {}
    refused: dict[str, str] = {}
    by_provider: dict[int, dict[str, InventoryUsage]] = defaultdict(dict)
    for (provider_id, name), inventory in inventories.items():
        by_provider[provider_id][name] = inventory
    for wanted in claims:
        provider = providers.get(wanted.provider_uuid)
        if provider is None:
            refused[wanted.consumer_uuid] = f"no resource provider {wanted.provider_uuid}"
            continue
        old = before.get(wanted.consumer_uuid, Counter())
        giving = {
            name: _giving(name, amount, old, by_provider, [provider.id, *below.get(provider.id, ())])
            for name, amount in wanted.resources.items()
        }
        offered = {name: by_provider[of][name] for name, of in giving.items() if name in by_provider[of]}
        held = {name: old[of, name] for name, of in giving.items() if (of, name) in old}
        reasons = refusals(offered, wanted.resources, held)
        reasons += policies.refusals(wanted.consumer_uuid, provider.host)
        if reasons:
            refused[wanted.consumer_uuid] = f"{provider.name}: {'; '.join(reasons)}"
            continue
        new = Counter({(giving[name], name): amount for name, amount in wanted.resources.items() if amount})
        for key, amount in old.items():
            inventories[key].used -= amount
        for key, amount in new.items():
            inventories[key].used += amount
        policies.place(wanted.consumer_uuid, provider.host)
        decided[wanted.consumer_uuid] = new
    return _Decided(decided, refused)


def _roots_to_descend(claims: Sequence[Claim], providers: Mapping[str, Provider]) -> set[int]:
    """The providers of whose claims a part may be below them: most claims ask for nothing of that kind."""
    asking = {claim.provider_uuid for claim in claims if IN_CHILDREN & claim.resources.keys()}
    return {provider.id for uuid, provider in providers.items() if uuid in asking}


def _giving(
    name: str, amount: int, old: Holding, inventories: Mapping[int, Mapping[str, InventoryUsage]], tree: Sequence[int]
) -> int:
    """The provider of the tree from which a class is taken: the one from which the consumer has it already, else the root
    if it has room, else the child with the most room.
    """
    root, *children = tree
    able = [provider_id for provider_id in children if name in inventories[provider_id]]
    if name not in IN_CHILDREN or not able:
        return root
    kept = [provider_id for provider_id in tree if old[provider_id, name] == amount > 0]
    if kept:
        return kept[0]
    # A root that has given its inventory to its children may still have one without room.
    own = inventories[root].get(name)
    if own is not None and own.capacity - own.used >= amount:
        return root

    def free(provider_id: int) -> int:
        inventory = inventories[provider_id][name]
        return inventory.capacity - inventory.used + old[provider_id, name]

    return max(able, key=free)


def _write(
    session: Session, decided: Mapping[str, Holding], before: Mapping[str, Holding], renumbered: Collection[str]
) -> None:
    changed = {uuid: new for uuid, new in decided.items() if new != before.get(uuid, Counter())}
    given_back = {uuid: before[uuid] for uuid in changed if uuid in before}
    rows.change_used(session, rows.total(changed.values()), rows.total(given_back.values()))
    if given_back:
        rows.delete_allocations(session, given_back)
        rows.raise_generations(session, given_back.keys() - set(renumbered))
    rows.insert_allocations(session, changed)
