"""Reads the rows behind allocation candidates: whole trees in a few queries, however many trees there are."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import BindParameter, bindparam, func, or_, select
from sqlalchemy.orm import Session

from minova.db.models import Inventory, ProviderAggregate, ProviderTrait, ResourceProvider
from minova.placement.candidates.tree import SHARES, Node
from minova.placement.limits.inventory_checks import InventoryUsage
from minova.placement.providers.queries import ROOT_ID

# Written into the statement as literals: databases limit the number of parameters, and these numbers are our own ids.
_IDS: BindParameter[Any] = bindparam("ids", expanding=True, literal_execute=True)
_COLUMNS = (ResourceProvider.id, ResourceProvider.uuid, ROOT_ID.label("root"), ResourceProvider.parent_provider_id)
_TREES = select(*_COLUMNS).where(or_(ResourceProvider.root_provider_id.in_(_IDS), ResourceProvider.id.in_(_IDS)))
_ROOTS = select(*_COLUMNS).where(ResourceProvider.id.in_(_IDS))
_INVENTORIES = select(
    Inventory.provider_id,
    Inventory.resource_class,
    Inventory.capacity,
    Inventory.used,
    Inventory.min_unit,
    Inventory.max_unit,
    Inventory.step_size,
).where(Inventory.provider_id.in_(_IDS))
_TRAITS = (
    select(ProviderTrait.provider_id, func.aggregate_strings(ProviderTrait.trait, ","))
    .where(ProviderTrait.provider_id.in_(_IDS))
    .group_by(ProviderTrait.provider_id)
)
_AGGREGATES = (
    select(ProviderAggregate.provider_id, func.aggregate_strings(ProviderAggregate.aggregate_uuid, ","))
    .where(ProviderAggregate.provider_id.in_(_IDS))
    .group_by(ProviderAggregate.provider_id)
)
_ANY_CHILD = select(ResourceProvider.id).where(ResourceProvider.parent_provider_id.is_not(None)).limit(1)
_TREES_OF = select(ResourceProvider.uuid, ROOT_ID).where(ResourceProvider.uuid.in_(bindparam("uuids", expanding=True)))
_SHARING = (
    select(ROOT_ID.label("root"))
    .join(ProviderTrait, ProviderTrait.provider_id == ResourceProvider.id)
    .where(ProviderTrait.trait == SHARES)
    .distinct()
)


def any_children(session: Session) -> bool:
    """Whether there is a tree of more than one provider."""
    return session.connection().scalar(_ANY_CHILD) is not None


def trees_of(session: Session, uuids: Collection[str]) -> dict[str, int]:
    """Returns {provider uuid: id of its root} of the providers that exist."""
    if not uuids:
        return {}
    return {row[0]: row[1] for row in session.connection().execute(_TREES_OF, {"uuids": sorted(uuids)})}


def roots_of_sharing(session: Session) -> list[int]:
    """Returns the roots of all trees that contain a sharing provider."""
    return sorted(session.connection().scalars(_SHARING))


def read_trees(session: Session, root_ids: Collection[int], *, nested: bool, aggregates: bool) -> dict[int, list[Node]]:
    """Returns {root id: the nodes of its tree} of the trees that still exist.

    `nested`: there are trees of more than one provider. `aggregates`: whether to read them.
    """
    if not root_ids:
        return {}
    connection = session.connection()
    providers = connection.execute(_TREES if nested else _ROOTS, {"ids": sorted(root_ids)}).all()
    ids = {"ids": [row[0] for row in providers]}
    if not providers:
        return {}
    inventories: dict[int, dict[str, InventoryUsage]] = defaultdict(dict)
    for provider_id, name, *numbers in connection.execute(_INVENTORIES, ids).all():
        inventories[provider_id][name] = InventoryUsage(*numbers)
    traits = _sets(connection.execute(_TRAITS, ids).all())
    memberships = _sets(connection.execute(_AGGREGATES, ids).all()) if aggregates else {}
    return _nodes(providers, inventories, traits, memberships)


def _sets(rows: Iterable[Any]) -> dict[int, frozenset[str]]:
    """Equal sets are stored once."""
    sets_by_text: dict[str, frozenset[str]] = {}
    sets: dict[int, frozenset[str]] = {}
    for provider_id, text in rows:
        if text not in sets_by_text:
            sets_by_text[text] = frozenset(text.split(","))
        sets[provider_id] = sets_by_text[text]
    return sets


def _nodes(
    providers: Iterable[Any],
    inventories: Mapping[int, Mapping[str, InventoryUsage]],
    traits: Mapping[int, frozenset[str]],
    aggregates: Mapping[int, frozenset[str]],
) -> dict[int, list[Node]]:
    by_root: dict[int, list[Node]] = defaultdict(list)
    providers = list(providers)
    uuids = {row[0]: row[1] for row in providers}
    none: frozenset[str] = frozenset()
    for provider_id, uuid, root_id, parent_id in sorted(providers):
        by_root[root_id].append(
            Node(
                id=provider_id,
                uuid=uuid,
                root_id=root_id,
                root_uuid=uuids.get(root_id, uuid),
                parent_id=parent_id,
                parent_uuid=uuids.get(parent_id),
                inventories=inventories.get(provider_id, {}),
                traits=traits.get(provider_id, none),
                aggregates=aggregates.get(provider_id, none),
            )
        )
    return by_root
