"""Allocations as Placement's API writes them: of several consumers on several providers, all or nothing.

Uses the same rows, locks and conditional updates as a claim (see `claims`). A consumer that holds nothing does not
exist for the API, but its row may stay to keep its claim number.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.orm import Session

from minova.db.models import Allocation, Consumer, ResourceProvider
from minova.db.models.clock import EpochNow
from minova.db.sql import in_list
from minova.placement import changes, errors
from minova.placement.allocations import rows
from minova.placement.allocations.rows import Holding, Key, Provider
from minova.placement.allocations.usages import UNKNOWN_TYPE
from minova.placement.inserts import insert_missing
from minova.placement.limits.inventory_checks import InventoryUsage, capacity_checks
from minova.placement.providers import resource_classes

# Project and user of requests before microversion 1.8, as in Placement.
INCOMPLETE_ID = "00000000-0000-0000-0000-000000000000"


class ConsumerAllocations(msgspec.Struct, frozen=True, kw_only=True):
    """What one consumer shall hold, {provider uuid: {resource class: amount}}. It replaces all that the consumer holds
    now.

    `generation`: the consumer generation that the client has seen; None: the consumer must not exist yet; `...`: not
    checked.
    """

    consumer_uuid: str
    allocations: dict[str, dict[str, int]]
    project_id: str = INCOMPLETE_ID
    user_id: str = INCOMPLETE_ID
    consumer_type: str | None = None
    generation: Any = ...


class _LockedConsumer(msgspec.Struct, frozen=True):
    """A consumer's row under its lock."""

    generation: int
    consumer_type: str


_LOCK = (
    select(Consumer.uuid, Consumer.generation, Consumer.consumer_type)
    .where(in_list(Consumer.uuid))
    .order_by(Consumer.uuid)
    .with_for_update()
)
_CHANGE = (
    update(Consumer)
    .where(Consumer.uuid == bindparam("b_uuid"))
    .values(
        generation=bindparam("b_generation"),
        project_id=bindparam("b_project_id"),
        user_id=bindparam("b_user_id"),
        consumer_type=bindparam("b_type"),
    )
)
_RAISE = (
    update(ResourceProvider)
    .where(ResourceProvider.id == bindparam("b_id"))
    .values(generation=ResourceProvider.generation + 1, updated_at=EpochNow())
)
# Consumers with a claim number stay: a late claim must still find the number.
_FORGET = delete(Consumer).where(
    in_list(Consumer.uuid),
    Consumer.claim_number == 0,
    ~select(Allocation.consumer_uuid).where(Allocation.consumer_uuid == Consumer.uuid).exists(),
)


def replace(
    session: Session, consumer_changes: Sequence[ConsumerAllocations], now: Any = None, *, beyond_capacity: bool = False
) -> None:
    """Raises BadRequest if there is no such provider or class, Conflict if a generation has changed or there is not
    enough capacity.

    `beyond_capacity`: the amounts are in use already, so they are written whether or not they fit.
    """
    locked_consumers = lock(session, consumer_changes)
    before = rows.holdings(session, locked_consumers)
    _check_generations(consumer_changes, locked_consumers, before)
    provider_uuids = {uuid for change in consumer_changes for uuid in change.allocations}
    providers = rows.providers_by_uuid(session, provider_uuids)
    _check_names(session, consumer_changes, providers)
    provider_ids_before = rows.providers_in(before.values())
    inventories = rows.lock_inventories(session, provider_ids_before | {provider.id for provider in providers.values()})
    after = _decide(consumer_changes, before, providers, inventories, beyond_capacity=beyond_capacity)
    rows.change_used(session, rows.total(after.values()), rows.total(before.values()), beyond_capacity=beyond_capacity)
    _write(session, consumer_changes, locked_consumers, before, after)
    changes.append(session, rows.node_ids_of(session, provider_ids_before | rows.providers_in(after.values())), now)


def remove(session: Session, consumer_uuid: str) -> None:
    """Releases all that the consumer holds. Raises NotFound if it holds nothing."""
    locked_consumers = lock(session, [ConsumerAllocations(consumer_uuid=consumer_uuid, allocations={})])
    before = rows.holdings(session, [consumer_uuid]) if locked_consumers else {}
    if not before:
        raise errors.NotFound(f"No allocations for consumer '{consumer_uuid}'")
    touched = rows.providers_in(before.values())
    rows.lock_inventories(session, touched)
    rows.change_used(session, Counter(), rows.total(before.values()))
    rows.delete_allocations(session, before)
    session.connection().execute(_FORGET, {"some": [consumer_uuid]})
    changes.append(session, rows.node_ids_of(session, touched))


def lock(session: Session, consumer_changes: Sequence[ConsumerAllocations]) -> dict[str, _LockedConsumer]:
    """Locks the consumers' rows. Creates a row for a new consumer that is to hold something."""
    new = [
        {
            "uuid": consumer.consumer_uuid,
            "claim_number": 0,
            "generation": 0,
            "consumer_type": consumer.consumer_type or UNKNOWN_TYPE,
            "project_id": consumer.project_id,
            "user_id": consumer.user_id,
        }
        for consumer in sorted(consumer_changes, key=lambda consumer: consumer.consumer_uuid)
        if consumer.allocations
    ]
    uuids = sorted(consumer.consumer_uuid for consumer in consumer_changes)
    # Twice: an existing consumer may have been deleted, with its last allocation, while this waited for its lock.
    for _ in range(2):
        insert_missing(session, Consumer, new)
        locked = session.connection().execute(_LOCK, {"some": uuids})
        locked_consumers = {row[0]: _LockedConsumer(row[1], row[2]) for row in locked}
        if all(consumer["uuid"] in locked_consumers for consumer in new):
            return locked_consumers
    raise errors.Conflict("The consumers came and went at the same time.", errors.CONCURRENT_UPDATE)


def _check_generations(
    consumer_changes: Sequence[ConsumerAllocations], seen: Mapping[str, _LockedConsumer], before: Mapping[str, Holding]
) -> None:
    for change in consumer_changes:
        generation = seen[change.consumer_uuid].generation if change.consumer_uuid in before else None
        if change.generation is not ... and change.generation != generation:
            expected = "null" if generation is None else generation
            got = "null" if change.generation is None else change.generation
            raise errors.Conflict(
                f"consumer generation conflict - expected {expected} but got {got} for consumer {change.consumer_uuid}",
                errors.CONCURRENT_UPDATE,
            )


def _check_names(
    session: Session, consumer_changes: Sequence[ConsumerAllocations], providers: Mapping[str, Provider]
) -> None:
    for change in consumer_changes:
        for uuid in change.allocations:
            if uuid not in providers:
                raise errors.BadRequest(f"Allocation for resource provider '{uuid}' that does not exist.")
        try:
            resource_classes.require(session, {name for of in change.allocations.values() for name in of})
        except errors.NotFound as error:
            raise errors.BadRequest(
                f"Unable to allocate inventory for consumer {change.consumer_uuid}: {error}"
            ) from None


# -- deciding ----------------------------------------------------------------------------------------------------------


def _decide(
    consumer_changes: Sequence[ConsumerAllocations],
    before: Mapping[str, Holding],
    providers: Mapping[str, Provider],
    inventories: Mapping[Key, InventoryUsage],
    *,
    beyond_capacity: bool,
) -> dict[str, Holding]:
    """Returns what each consumer shall hold. All consumers release first, so that two can swap. Raises Conflict if it
    does not fit.
    """
    freed = rows.total(before.values())
    after: dict[str, Holding] = {}
    added_amounts: Holding = Counter()
    for change in consumer_changes:
        new: Holding = Counter()
        for uuid, resources in change.allocations.items():
            for name, amount in resources.items():
                key = (providers[uuid].id, name)
                new[key] = amount
                added_amounts[key] += amount
                inventory = _inventory(uuid, name, inventories.get(key))
                if not beyond_capacity:
                    _check_free(uuid, name, inventory, amount, added_amounts[key], freed[key])
        if new:
            after[change.consumer_uuid] = new
    return after


def _inventory(uuid: str, name: str, inventory: InventoryUsage | None) -> InventoryUsage:
    if inventory is None:
        raise errors.Conflict(
            f"Unable to allocate inventory: Inventory for '{name}' on resource provider '{uuid}' invalid: "
            f"it has no inventory of {name}."
        )
    return inventory


def _check_free(uuid: str, name: str, inventory: InventoryUsage, amount: int, taken: int, freed: int) -> None:
    """Checks `amount` for one consumer. `taken`: by all consumers so far. `freed`: what they have released; they may
    always take that much again.
    """
    _, *units = capacity_checks(name, inventory, amount)
    reasons = [check.reason() for check in units if not check.passed]
    if reasons:
        raise _refused(uuid, name, "violate inventory constraints", reasons)
    free, *_ = capacity_checks(name, inventory, taken, freed)
    if not free.passed and taken > freed:
        raise _refused(uuid, name, "exceed the capacity", [free.reason()])


def _refused(uuid: str, name: str, what: str, reasons: Sequence[str]) -> errors.Conflict:
    return errors.Conflict(
        f"Unable to allocate inventory: Unable to create allocation for '{name}' on resource provider '{uuid}'. "
        f"The requested amount would {what}: {'; '.join(reasons)}."
    )


# -- writing -----------------------------------------------------------------------------------------------------------


def _write(
    session: Session,
    consumer_changes: Sequence[ConsumerAllocations],
    seen: Mapping[str, _LockedConsumer],
    before: Mapping[str, Holding],
    after: Mapping[str, Holding],
) -> None:
    connection = session.connection()
    # Before the foreign keys of the new rows lock the providers: upgrading a lock later can deadlock.
    touched = rows.providers_in(
        after.get(change.consumer_uuid, before.get(change.consumer_uuid, Counter())) for change in consumer_changes
    )
    if touched:
        connection.execute(_RAISE, [{"b_id": provider_id} for provider_id in sorted(touched)])
    if before:
        rows.delete_allocations(session, before)
    rows.insert_allocations(session, after)
    holding = [
        {
            "b_uuid": change.consumer_uuid,
            "b_generation": (seen[change.consumer_uuid].generation if change.consumer_uuid in before else 0) + 1,
            "b_project_id": change.project_id,
            "b_user_id": change.user_id,
            "b_type": change.consumer_type or seen[change.consumer_uuid].consumer_type,
        }
        for change in consumer_changes
        if change.consumer_uuid in after
    ]
    if holding:
        connection.execute(_CHANGE, holding)
    emptied = sorted(uuid for uuid in seen if uuid not in after)
    if emptied:
        connection.execute(_FORGET, {"some": emptied})
