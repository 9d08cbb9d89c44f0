"""Claims of allocations: the final check of a scheduling decision. An inventory's `used` is the sum of the allocations
of its class on its provider.

Lock order of every writer: consumers by uuid, server groups by id, then inventories by (provider, class). Two claims on
one inventory, or of one group with a hard policy, are serialised by these locks: the second one sees what the first has
left.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from minova import errors
from minova.db.models import Allocation, Consumer
from minova.objects.requests.request_spec import Selection
from minova.placement import changes
from minova.placement.allocations import rows
from minova.placement.allocations.group_policies import GroupPolicies
from minova.placement.allocations.rows import Holding, Key, Provider
from minova.placement.limits.inventory_checks import InventoryUsage, refusals
from minova.placement.providers import of_node

# Classes whose inventory is in child providers of the node's provider: one child for each card.
IN_CHILDREN = frozenset({"VGPU"})


class AllocationClaim(msgspec.Struct, frozen=True, kw_only=True):
    """What one consumer shall hold. It replaces all that the consumer holds now."""

    consumer_uuid: str
    claim_number: int
    provider_uuid: str
    resources: dict[str, int]
    project_id: str = ""
    user_id: str = ""


class Owned(Protocol):
    """A server, with its owners."""

    @property
    def uuid(self) -> str: ...
    @property
    def project_id(self) -> str: ...
    @property
    def user_id(self) -> str: ...


def claim_selection(
    session: Session, server: Owned, selected: Selection, claim_number: int, now: ColumnElement[float]
) -> str | None:
    """Claims for the server what a scheduler has selected before, such as an alternate. Returns why that is refused; None: it is claimed."""
    new_claim = AllocationClaim(
        consumer_uuid=server.uuid,
        claim_number=claim_number,
        provider_uuid=selected.provider_uuid,
        resources=selected.allocation,
        project_id=server.project_id,
        user_id=server.user_id,
    )
    return claim(session, [new_claim], now).get(server.uuid)


def claim(
    session: Session, claims: Sequence[AllocationClaim], now: Any = None, *, all_or_none: bool = False
) -> dict[str, str]:
    """Writes the claims that fit, in this order. Returns {consumer uuid: reason} of the refused ones, which keep what
    they had.

    `all_or_none`: writes no allocation if any claim is refused.

    One claim per consumer. Raises StaleClaim, after which the transaction must be rolled back, if a claim number

    - is lower than the highest one that its consumer has seen;
    - has been claimed already with another result: a message that comes twice must not move what the first one has
      written. The same claim again changes nothing.

    A refused claim does not use up its number.
    """
    if not claims:
        return {}
    session.flush()  # so that a node that the caller has just created is found
    numbered = _number(session, claims)
    policies = GroupPolicies(session, numbered.group_ids)
    before = rows.holdings(session, [c.consumer_uuid for c in claims])
    providers = rows.providers_by_uuid(session, {c.provider_uuid for c in claims})
    provider_ids_before = rows.providers_in(before.values())
    below = rows.children_of(session, _roots_to_descend(claims, providers))
    inventories = rows.lock_inventories(
        session, provider_ids_before.union((provider.id for provider in providers.values()), *below.values())
    )
    decided, refused = _decide(claims, before, providers, inventories, policies, below)
    _refuse_second_decisions(numbered, before, decided)
    if decided and not (refused and all_or_none):
        _write(session, decided, before, numbered)
        entered = {claimed.provider_uuid for claimed in claims if claimed.consumer_uuid in decided}
        node_ids = [providers[uuid].node_id for uuid in entered]
        node_ids += rows.node_ids_of(session, provider_ids_before - {provider.id for provider in providers.values()})
        changes.append(session, [node_id for node_id in node_ids if node_id is not None], now)
    return refused


def release(
    session: Session, consumer_uuids: Iterable[str], now: Any = None, *, claim_number: int | None = None
) -> dict[str, int]:
    """Releases all that these consumers hold. Returns the lowest claim number that each consumer accepts from now on.

    Claims still in progress are refused from now on (StaleClaim): those numbered up to the highest number that the
    consumer has seen, and up to `claim_number` if that is given.
    """
    uuids = sorted(set(consumer_uuids))
    if not uuids:
        return {}
    session.flush()
    if claim_number is not None:
        rows.ensure_consumers(session, [(uuid, claim_number, "", "") for uuid in uuids])
    locked_consumers = rows.lock_consumers(session, uuids)
    if not locked_consumers:
        return {}
    before = rows.holdings(session, locked_consumers)
    if before:
        touched = rows.providers_in(before.values())
        rows.lock_inventories(session, touched)
        rows.change_used(session, Counter(), rows.total(before.values()))
        rows.delete_allocations(session, before)
        changes.append(session, rows.node_ids_of(session, touched), now)
    numbers = {uuid: max(number, claim_number or 0) + 1 for uuid, number in locked_consumers.items()}
    rows.renumber(session, numbers)
    return numbers


def forget(session: Session, consumer_uuids: Iterable[str]) -> None:
    """Removes consumers that will never claim again, with their claim numbers. Consumers that hold anything stay."""
    rows.delete_consumers(session, consumer_uuids)


def consumers_of(session: Session, provider_uuid: str, consumer_type: str | None = None) -> list[str]:
    """Returns the consumers with allocations on this provider or below it, of one type or of all types."""
    query = select(Allocation.consumer_uuid).where(Allocation.provider_id.in_(of_node.tree_of(provider_uuid)))
    if consumer_type is not None:
        query = query.join(Consumer, Consumer.uuid == Allocation.consumer_uuid)
        query = query.where(Consumer.consumer_type == consumer_type)
    return sorted(set(session.scalars(query)))


def require_unclaimed(session: Session, consumer_uuids: Iterable[str], claim_number: int) -> None:
    """Raises StaleClaim if one of these consumers has seen a higher claim number, or holds something under this one."""
    holders = rows.numbers_of_holders(session, consumer_uuids)
    for uuid, (number, holds) in sorted(holders.items()):
        if claim_number < number:
            raise _too_late(uuid, claim_number, number)
        if claim_number == number and holds:
            raise _decided_already(uuid)


class _Numbered(NamedTuple):
    """For each consumer the id of its server group, if it is in one, and its new claim number, if this claim raises it."""

    group_ids: dict[str, int]
    renumbered: dict[str, int]


def _number(session: Session, claims: Sequence[AllocationClaim]) -> _Numbered:
    """Locks the consumers, and creates missing ones.

    Raises StaleClaim if a claim comes too late.
    """
    rows.ensure_consumers(session, [(c.consumer_uuid, c.claim_number, c.project_id, c.user_id) for c in claims])
    locked_consumers, group_ids = rows.lock_consumers_with_groups(session, [c.consumer_uuid for c in claims])
    for claimed in claims:
        if (
            claimed.consumer_uuid not in locked_consumers
        ):  # the row existed, but was deleted while this waited for its lock
            raise errors.Conflict(f"Consumer {claimed.consumer_uuid} was removed at the same time.")
        if claimed.claim_number < locked_consumers[claimed.consumer_uuid]:
            raise _too_late(claimed.consumer_uuid, claimed.claim_number, locked_consumers[claimed.consumer_uuid])
    renumbered = {
        c.consumer_uuid: c.claim_number for c in claims if c.claim_number != locked_consumers[c.consumer_uuid]
    }
    return _Numbered(group_ids, renumbered)


def _refuse_second_decisions(
    numbered: _Numbered, before: Mapping[str, Holding], decided: Mapping[str, Holding]
) -> None:
    """What a consumer holds under the number of this claim is the answer to it: another decision is refused, also one
    that finds no room, because the first one may have taken it.
    """
    for uuid, holding in before.items():
        if uuid not in numbered.renumbered and decided.get(uuid) != holding:
            raise _decided_already(uuid)


def _too_late(uuid: str, claim_number: int, seen: int) -> errors.StaleClaim:
    return errors.StaleClaim(f"Claim {claim_number} of {uuid} comes after {seen}.")


def _decided_already(uuid: str) -> errors.StaleClaim:
    return errors.StaleClaim(f"The claim of {uuid} has been decided already.")


class _Decided(NamedTuple):
    """For each consumer the allocations that it gets, or the reason of its refusal."""

    holdings: dict[str, Holding]
    refused: dict[str, str]


def _decide(
    claims: Sequence[AllocationClaim],
    before: Mapping[str, Holding],
    providers: Mapping[str, Provider],
    inventories: Mapping[Key, InventoryUsage],
    policies: GroupPolicies,
    below: Mapping[int, Sequence[int]],
) -> _Decided:
    """Decides the claims one after the other. Each one counts what those before it take."""
    decided: dict[str, Holding] = {}
    refused: dict[str, str] = {}
    by_provider: dict[int, dict[str, InventoryUsage]] = defaultdict(dict)
    for (provider_id, name), inventory in inventories.items():
        by_provider[provider_id][name] = inventory
    for claimed in claims:
        provider = providers.get(claimed.provider_uuid)
        if provider is None:
            refused[claimed.consumer_uuid] = f"no resource provider {claimed.provider_uuid}"
            continue
        old = before.get(claimed.consumer_uuid, Counter())
        giving = {
            name: _giving(name, amount, old, by_provider, [provider.id, *below.get(provider.id, ())])
            for name, amount in claimed.resources.items()
        }
        offered = {name: by_provider[of][name] for name, of in giving.items() if name in by_provider[of]}
        old_amounts = {name: old[of, name] for name, of in giving.items() if (of, name) in old}
        reasons = refusals(offered, claimed.resources, old_amounts)
        reasons += policies.refusals(claimed.consumer_uuid, provider.host)
        if reasons:
            refused[claimed.consumer_uuid] = f"{provider.name}: {'; '.join(reasons)}"
            continue
        new = Counter({(giving[name], name): amount for name, amount in claimed.resources.items() if amount})
        for key, amount in old.items():
            inventories[key].used -= amount
        for key, amount in new.items():
            inventories[key].used += amount
        policies.place(claimed.consumer_uuid, provider.host)
        decided[claimed.consumer_uuid] = new
    return _Decided(decided, refused)


def _roots_to_descend(claims: Sequence[AllocationClaim], providers: Mapping[str, Provider]) -> set[int]:
    """Returns the providers whose claims may be served in part by child providers. Most claims ask
    for no such class.
    """
    asking = {claim.provider_uuid for claim in claims if IN_CHILDREN & claim.resources.keys()}
    return {provider.id for uuid, provider in providers.items() if uuid in asking}


def _giving(
    name: str, amount: int, old: Holding, inventories: Mapping[int, Mapping[str, InventoryUsage]], tree: Sequence[int]
) -> int:
    """Chooses the provider of the tree from which a class is taken: the one from which the consumer has it already,
    else the root if it has enough free, else the child with the most free.
    """
    root, *children = tree
    able = [provider_id for provider_id in children if name in inventories[provider_id]]
    if name not in IN_CHILDREN or not able:
        return root
    unchanged_ids = [provider_id for provider_id in tree if old[provider_id, name] == amount > 0]
    if unchanged_ids:
        return unchanged_ids[0]
    # A root whose inventory has moved to its children may still have an inventory without capacity.
    own = inventories[root].get(name)
    if own is not None and own.capacity - own.used >= amount:
        return root

    def free(provider_id: int) -> int:
        inventory = inventories[provider_id][name]
        return inventory.capacity - inventory.used + old[provider_id, name]

    return max(able, key=free)


def _write(
    session: Session, decided: Mapping[str, Holding], before: Mapping[str, Holding], numbered: _Numbered
) -> None:
    renumbered = {uuid: number for uuid, number in numbered.renumbered.items() if uuid in decided}
    rows.renumber(session, renumbered)
    changed = {uuid: new for uuid, new in decided.items() if new != before.get(uuid, Counter())}
    given_back = {uuid: before[uuid] for uuid in changed if uuid in before}
    rows.change_used(session, rows.total(changed.values()), rows.total(given_back.values()))
    if given_back:
        rows.delete_allocations(session, given_back)
    rows.insert_allocations(session, changed)
