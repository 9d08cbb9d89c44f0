"""The rows behind allocations. The statements are built once: building one takes longer than running it."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec
from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.orm import Session, aliased

from minova import errors
from minova.db.models import Allocation, ComputeNode, Consumer, InstanceGroupMember, Inventory, ResourceProvider
from minova.db.models.clock import EpochNow
from minova.db.sql import in_list
from minova.placement.inserts import insert_missing
from minova.placement.limits.inventory_checks import InventoryUsage

_Root = aliased(ResourceProvider)

# (provider_id, resource_class): one inventory.
Key: TypeAlias = tuple[int, str]
Holding: TypeAlias = Counter[Key]


class Provider(msgspec.Struct, frozen=True):
    """`node_id`: the compute node that it represents, if any. `host`: that node's host, or the provider's own name."""

    id: int
    name: str
    node_id: int | None
    host: str


_CONSUMERS = select(Consumer.uuid, Consumer.claim_number).where(in_list(Consumer.uuid)).order_by(Consumer.uuid)
_LOCK_CONSUMERS = _CONSUMERS.with_for_update()
# Includes each consumer's server group, so that a claim of consumers without a group needs no further query.
_LOCK_CLAIMANTS = _LOCK_CONSUMERS.add_columns(
    select(InstanceGroupMember.group_id).where(InstanceGroupMember.instance_uuid == Consumer.uuid).scalar_subquery()
)
_NUMBERS = select(
    Consumer.uuid,
    Consumer.claim_number,
    select(Allocation.consumer_uuid).where(Allocation.consumer_uuid == Consumer.uuid).exists(),
).where(in_list(Consumer.uuid))
_RENUMBER = (
    update(Consumer)
    .where(Consumer.uuid == bindparam("b_uuid"))
    .values(claim_number=bindparam("b_claim_number"), generation=Consumer.generation + 1)
)
_RAISE = update(Consumer).where(in_list(Consumer.uuid)).values(generation=Consumer.generation + 1)
_FORGET = delete(Consumer).where(
    in_list(Consumer.uuid), ~select(Allocation.consumer_uuid).where(Allocation.consumer_uuid == Consumer.uuid).exists()
)
_HOLDINGS = select(Allocation.consumer_uuid, Allocation.provider_id, Allocation.resource_class, Allocation.used).where(
    in_list(Allocation.consumer_uuid)
)
_PROVIDERS = (
    select(ResourceProvider.uuid, ResourceProvider.id, ResourceProvider.name, ComputeNode.id, ComputeNode.host)
    .outerjoin(ComputeNode, ComputeNode.uuid == ResourceProvider.uuid)
    .where(in_list(ResourceProvider.uuid))
)
_NODE_IDS = (
    select(ComputeNode.id)
    .join(_Root, _Root.uuid == ComputeNode.uuid)
    .join(ResourceProvider, func.coalesce(ResourceProvider.root_provider_id, ResourceProvider.id) == _Root.id)
    .where(in_list(ResourceProvider.id))
    .distinct()
)
_LOCK_INVENTORIES = (
    select(
        Inventory.provider_id,
        Inventory.resource_class,
        Inventory.capacity,
        Inventory.used,
        Inventory.min_unit,
        Inventory.max_unit,
        Inventory.step_size,
    )
    .where(in_list(Inventory.provider_id))
    .order_by(Inventory.provider_id, Inventory.resource_class)
    .with_for_update()
)
_CHILDREN = (
    select(ResourceProvider.root_provider_id, ResourceProvider.id)
    .where(in_list(ResourceProvider.root_provider_id), ResourceProvider.parent_provider_id.is_not(None))
    .order_by(ResourceProvider.id)
)
_USE_BEYOND = (
    update(Inventory)
    .where(Inventory.provider_id == bindparam("b_provider"), Inventory.resource_class == bindparam("b_class"))
    .values(used=Inventory.used + bindparam("b_n"))
)
_USE = _USE_BEYOND.where((Inventory.used + bindparam("b_n") <= Inventory.capacity) | (bindparam("b_n") < 0))
_INSERT = insert(Allocation).values(updated_at=EpochNow())
_DELETE = delete(Allocation).where(in_list(Allocation.consumer_uuid))


def total(holdings: Iterable[Holding]) -> Holding:
    sums: Holding = Counter()
    for holding in holdings:
        sums.update(holding)
    return sums


def providers_in(holdings: Iterable[Holding]) -> set[int]:
    return {provider_id for holding in holdings for provider_id, _ in holding}


# -- consumers ---------------------------------------------------------------------------------------------------------


def ensure_consumers(
    session: Session, rows: Iterable[tuple[str, int, str, str]], consumer_type: str = "INSTANCE"
) -> None:
    """`rows`: (uuid, claim_number, project_id, user_id). Existing consumers are not changed."""
    consumers = [
        {
            "uuid": uuid,
            "claim_number": claim_number,
            "generation": 0,
            "consumer_type": consumer_type,
            "project_id": project_id,
            "user_id": user_id,
        }
        for uuid, claim_number, project_id, user_id in sorted(rows)
    ]
    insert_missing(session, Consumer, consumers)


def lock_consumers(session: Session, uuids: Iterable[str]) -> dict[str, int]:
    """Locks the consumers and returns their claim numbers."""
    rows = session.connection().execute(_LOCK_CONSUMERS, {"some": sorted(uuids)})
    return {row[0]: row[1] for row in rows}


class LockedConsumers(NamedTuple):
    """By uuid: the claim numbers of the consumers, and the ids of the server groups of those that are in one."""

    claim_numbers: dict[str, int]
    group_ids: dict[str, int]


def lock_consumers_with_groups(session: Session, uuids: Iterable[str]) -> LockedConsumers:
    locked = session.connection().execute(_LOCK_CLAIMANTS, {"some": sorted(uuids)}).all()
    return LockedConsumers({row[0]: row[1] for row in locked}, {row[0]: row[2] for row in locked if row[2] is not None})


def numbers_of_holders(session: Session, uuids: Iterable[str]) -> dict[str, tuple[int, bool]]:
    """Returns the claim numbers of the consumers, and whether they hold anything. Locks nothing."""
    rows = session.connection().execute(_NUMBERS, {"some": sorted(uuids)})
    return {uuid: (number, bool(holds)) for uuid, number, holds in rows}


def renumber(session: Session, numbers: Mapping[str, int]) -> None:
    if numbers:
        rows = [{"b_uuid": uuid, "b_claim_number": number} for uuid, number in sorted(numbers.items())]
        session.connection().execute(_RENUMBER, rows)


def raise_generations(session: Session, uuids: Iterable[str]) -> None:
    """Raises the generations, so that clients that have read these consumers must read them again."""
    some = sorted(uuids)
    if some:
        session.connection().execute(_RAISE, {"some": some})


def delete_consumers(session: Session, uuids: Iterable[str]) -> None:
    """Deletes the consumers that hold nothing."""
    session.connection().execute(_FORGET, {"some": sorted(uuids)})


# -- providers and their inventories -----------------------------------------------------------------------------------


def providers_by_uuid(session: Session, uuids: Iterable[str]) -> dict[str, Provider]:
    rows = session.connection().execute(_PROVIDERS, {"some": sorted(uuids)})
    return {row[0]: Provider(row[1], row[2], row[3], row[4] or row[2]) for row in rows}


def node_ids_of(session: Session, provider_ids: Collection[int]) -> list[int]:
    """Returns the ids of the compute nodes whose trees contain these providers."""
    if not provider_ids:
        return []
    return list(session.connection().scalars(_NODE_IDS, {"some": sorted(provider_ids)}))


def children_of(session: Session, root_ids: Collection[int]) -> dict[int, list[int]]:
    """Returns the providers below each of these roots."""
    children: dict[int, list[int]] = {}
    if root_ids:
        for root_id, provider_id in session.connection().execute(_CHILDREN, {"some": sorted(root_ids)}):
            if root_id is not None:
                children.setdefault(root_id, []).append(provider_id)
    return children


def lock_inventories(session: Session, provider_ids: Collection[int]) -> dict[Key, InventoryUsage]:
    if not provider_ids:
        return {}
    rows = session.connection().execute(_LOCK_INVENTORIES, {"some": sorted(provider_ids)})
    return {
        (row[0], row[1]): InventoryUsage(
            capacity=row[2], used=row[3], min_unit=row[4], max_unit=row[5], step_size=row[6]
        )
        for row in rows
    }


def change_used(session: Session, taken: Holding, freed: Holding, *, beyond_capacity: bool = False) -> None:
    """Changes `used`. An increase has the condition that it fits, although the rows are locked and checked already;
    `beyond_capacity` lifts it.

    Raises Conflict if the condition failed: then the locks are not correct.
    """
    deltas = {key: taken[key] - freed[key] for key in {*taken, *freed} if taken[key] != freed[key]}
    rows = [{"b_provider": p, "b_class": c, "b_n": n} for (p, c), n in sorted(deltas.items())]
    if not rows:
        return
    result: Any = session.connection().execute(_USE_BEYOND if beyond_capacity else _USE, rows)
    if result.rowcount != len(rows):
        raise errors.Conflict("An inventory changed under a lock that should have held it.")


# -- allocations -------------------------------------------------------------------------------------------------------


def holdings(session: Session, consumer_uuids: Iterable[str]) -> dict[str, Holding]:
    """Returns what each consumer holds. Consumers that hold nothing are left out."""
    holding_by_consumer: dict[str, Holding] = {}
    for uuid, provider_id, name, used in session.connection().execute(_HOLDINGS, {"some": sorted(consumer_uuids)}):
        holding_by_consumer.setdefault(uuid, Counter())[provider_id, name] = used
    return holding_by_consumer


def delete_allocations(session: Session, consumer_uuids: Iterable[str]) -> None:
    session.connection().execute(_DELETE, {"some": sorted(consumer_uuids)})


def insert_allocations(session: Session, new: Mapping[str, Holding]) -> None:
    rows = [
        {"consumer_uuid": uuid, "provider_id": provider_id, "resource_class": name, "used": amount}
        for uuid, holding in new.items()
        for (provider_id, name), amount in holding.items()
    ]
    if rows:
        session.connection().execute(_INSERT, rows)
