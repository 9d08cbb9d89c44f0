"""Child providers of a node, one for each part of the node that offers a class by itself: VGPU of each card, as in
Nova.

The name of a child is `<node>_<card>`. Its uuid is derived from the node's uuid and the card's name, so two conductors
create the same one. If the node's own provider has such an inventory from an older release, the inventory moves to the
children with its allocations.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid5

import msgspec
from sqlalchemy import bindparam, select, update
from sqlalchemy.orm import Session

from minova import errors
from minova.db.models import Allocation, ResourceProvider
from minova.objects.hosts.compute_node import Inventory
from minova.placement import changes
from minova.placement.allocations import rows
from minova.placement.allocations.rows import Holding, Key
from minova.placement.inserts import insert_missing
from minova.placement.limits.inventory_checks import InventoryUsage
from minova.placement.nodes import inventories
from minova.placement.providers import of_node

LOG = logging.getLogger(__name__)
replace = msgspec.structs.replace
# Built once: every audit of every node runs it.
_BELOW = select(ResourceProvider.id, ResourceProvider.uuid, ResourceProvider.name).where(
    ResourceProvider.parent_provider_id == bindparam("of")
)


def child_uuid(root_uuid: str, card: str) -> str:
    """Raises BadRequest if the node has no valid uuid."""
    try:
        return str(uuid5(UUID(root_uuid), card))
    except ValueError:
        raise errors.BadRequest(f"{root_uuid!r} is not the uuid of a node.") from None


def publish(
    session: Session, root: tuple[int, str], node: str, offered: Sequence[Inventory], now: Any, *, split: bool = True
) -> None:
    """Makes these the inventories of the node's provider and of its children. `root`: id and uuid of the node's
    provider.

    Without `split`, a node that has no children yet gets none: its own provider offers everything.

    Consumers that have to move are locked before the inventories, as claims lock them. Raises Conflict if another
    provider has the name of a child.
    """
    root_id, root_uuid = root
    children = _children(session, root_id, root_uuid)
    if not split and not children:
        offered = [replace(inventory, children=()) for inventory in offered]
    if children or any(inventory.children for inventory in offered):
        _publish_children(session, root_id, root_uuid, node, offered, children, now)
    inventories.set_inventories(session, root_uuid, [inventory for inventory in offered if not inventory.children])


def _publish_children(
    session: Session,
    root_id: int,
    root_uuid: str,
    node: str,
    offered: Sequence[Inventory],
    children: Mapping[str, int],
    now: Any,
) -> None:
    by_card: dict[str, list[Inventory]] = {card: [] for card in children}
    for inventory in offered:
        for card, total in inventory.children:
            part = Inventory(resource_class=inventory.resource_class, total=total, max_unit=total)
            by_card.setdefault(card, []).append(part)
    ids = {card: _ensure(session, root_id, child_uuid(root_uuid, card), f"{node}_{card}") for card in sorted(by_card)}
    moving = {inventory.resource_class for inventory in offered if inventory.children}
    movers = _holders(session, root_id, moving)
    rows.lock_consumers(session, movers)
    rows.lock_inventories(session, [root_id, *ids.values()])
    for card, parts in sorted(by_card.items()):
        inventories.set_inventories(session, child_uuid(root_uuid, card), parts)
    if movers:
        _move_down(session, node, root_id, sorted(ids.values()), movers, moving, now)
    for card in sorted(by_card):
        if not by_card[card] and not _is_used(session, ids[card]):
            LOG.info("Node %s has no card %s any more: its provider goes", node, card)
            of_node.delete(session, child_uuid(root_uuid, card))


def _children(session: Session, root_id: int, root_uuid: str) -> dict[str, int]:
    """Returns {card: provider id} of the children that were created here. Children that users created over HTTP are
    left alone.
    """
    below = session.execute(_BELOW, {"of": root_id})
    cards = ((row.id, _card_of(root_uuid, row.uuid, row.name)) for row in below)
    return {card: provider_id for provider_id, card in cards if card is not None}


def _card_of(root_uuid: str, uuid: str, name: str) -> str | None:
    """Returns the card of a child that was created here; None for another one. The node may have had another name then, and names
    of nodes and of cards may have underscores: the uuid shows which part is the card.
    """
    places = (place for place, letter in enumerate(name) if letter == "_")
    return next((card for place in places if child_uuid(root_uuid, card := name[place + 1 :]) == uuid), None)


def _ensure(session: Session, root_id: int, uuid: str, name: str) -> int:
    model = ResourceProvider
    new = {"uuid": uuid, "name": name, "generation": 0, "root_provider_id": root_id, "parent_provider_id": root_id}
    row = session.execute(select(model.id, model.name).where(model.uuid == uuid)).one_or_none()
    if row is None:
        insert_missing(session, model, [new])
        row = session.execute(select(model.id, model.name).where(model.uuid == uuid)).one_or_none()
    if row is None:
        raise errors.Conflict(f"Another resource provider is named {name!r}; {uuid} cannot be made.")
    if row.name != name:
        session.connection().execute(update(model).where(model.id == row.id).values(name=name))
    return int(row.id)


def _holders(session: Session, root_id: int, classes: set[str]) -> list[str]:
    query = select(Allocation.consumer_uuid).where(
        Allocation.provider_id == root_id, Allocation.resource_class.in_(classes)
    )
    return sorted(set(session.scalars(query)))


def _is_used(session: Session, provider_id: int) -> bool:
    query = select(Allocation.consumer_uuid).where(Allocation.provider_id == provider_id).limit(1)
    return session.scalar(query) is not None


def _move_down(
    session: Session,
    node: str,
    root_id: int,
    child_ids: Sequence[int],
    consumers: Sequence[str],
    classes: set[str],
    now: Any,
) -> None:
    """Moves the allocations of consumers from the root to its children. An allocation that fits into no child stays."""
    inventories = rows.lock_inventories(session, [root_id, *child_ids])
    holding_by_consumer = rows.holdings(session, consumers)
    added_amounts, freed, moved = Counter[Key](), Counter[Key](), set()
    for uuid in consumers:
        for name in sorted(
            classes & {kind for provider_id, kind in holding_by_consumer.get(uuid, {}) if provider_id == root_id}
        ):
            amount = holding_by_consumer[uuid][root_id, name]
            child = _child_with_space(inventories, holding_by_consumer[uuid], child_ids, name, amount)
            if child is None:
                LOG.warning("Node %s: no card has room for %s=%d of %s, which stays as it is", node, name, amount, uuid)
                continue
            inventories[child, name].used += amount
            added_amounts[child, name] += amount
            freed[root_id, name] += amount
            moved.add(uuid)
            _move(session, uuid, root_id, child, name)
    rows.change_used(session, added_amounts, freed)
    rows.raise_generations(session, moved)
    changes.append(session, rows.node_ids_of(session, [root_id]), now)
    LOG.info("Node %s: allocations of %d consumers moved to the providers of its cards", node, len(moved))


def _child_with_space(
    inventories: Mapping[Key, InventoryUsage], own: Holding, child_ids: Sequence[int], name: str, amount: int
) -> int | None:
    """Returns the child with the most free units, among those from which the consumer has no allocation of the class yet."""
    able = {
        child: inventories[child, name].capacity - inventories[child, name].used
        for child in child_ids
        if (child, name) in inventories and (child, name) not in own
    }
    fitting = [child for child, free in able.items() if free >= amount]
    return max(fitting, key=lambda child: able[child]) if fitting else None


def _move(session: Session, consumer_uuid: str, source_id: int, target_id: int, name: str) -> None:
    statement = update(Allocation).where(
        Allocation.consumer_uuid == consumer_uuid,
        Allocation.provider_id == source_id,
        Allocation.resource_class == name,
    )
    session.connection().execute(statement.values(provider_id=target_id))
