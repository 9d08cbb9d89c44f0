"""Creates, changes and removes resource providers, and their trees.

A change of a tree first locks its rows by id, so that two changes cannot create a loop together. Claims lock
inventories, and then providers through their foreign keys; `remove` uses the same order.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, func, insert, or_, select, update
from sqlalchemy.orm import Session

from minova.db.models import Allocation, Inventory, ProviderAggregate, ProviderTrait, ResourceProvider
from minova.db.models.clock import EpochNow
from minova.placement import changes, errors
from minova.placement.providers.queries import ROOT_ID, ProviderRecord, find


def create(session: Session, uuid: str, name: str, parent_uuid: str | None = None) -> ProviderRecord:
    """Raises Conflict if name or uuid is taken, BadRequest if there is no such parent."""
    try:
        parent = _parent(session, uuid, parent_uuid)
    except errors.BadRequest as error:
        raise errors.BadRequest(f'Unable to create resource provider "{name}", {uuid}: {error}') from None
    _free(session, uuid, name)
    values = {
        "uuid": uuid,
        "name": name,
        "generation": 0,
        "parent_provider_id": None if parent is None else parent.id,
        "root_provider_id": None if parent is None else parent.root_id,
        "updated_at": EpochNow(),
    }
    session.connection().execute(insert(ResourceProvider).values(values))
    if parent is None:
        _set_roots(session, [find(session, uuid).id], None)
    return find(session, uuid)


def change(
    session: Session, provider: ProviderRecord, name: str, parent_uuid: Any, *, reparenting: bool
) -> ProviderRecord:
    """Renames the provider and moves it under another parent. None: no parent; `...`: the parent is not changed.

    Without `reparenting` only a provider without a parent can get one (before microversion 1.37). Raises BadRequest if
    the move is not allowed or makes a loop, or there is no such parent; Conflict if the name is taken.
    """
    if name != provider.name:
        _free(session, "", name)
        _set(session, provider.id, name=name)
    if parent_uuid is not ... and parent_uuid != provider.parent_uuid:
        try:
            _move(session, provider, parent_uuid, reparenting=reparenting)
        except errors.BadRequest as error:
            raise errors.BadRequest(f"Unable to save resource provider {provider.uuid}: {error}") from None
    return find(session, provider.uuid)


def remove(session: Session, provider: ProviderRecord) -> None:
    """Raises Conflict if the provider has allocations or children."""
    # In the order of a claim: inventories, then the provider.
    session.execute(
        select(Inventory.resource_class)
        .where(Inventory.provider_id == provider.id)
        .order_by(Inventory.resource_class)
        .with_for_update()
    ).all()
    session.execute(select(ResourceProvider.id).where(ResourceProvider.id == provider.id).with_for_update()).all()
    if session.scalar(select(func.count()).where(ResourceProvider.parent_provider_id == provider.id)):
        raise errors.Conflict(
            f"Unable to delete parent resource provider {provider.uuid}: It has child resource providers.",
            errors.CANNOT_DELETE_PARENT,
        )
    if session.scalar(select(func.count()).where(Allocation.provider_id == provider.id)):
        raise errors.Conflict(
            f"Unable to delete resource provider {provider.uuid}: Resource provider has allocations.",
            errors.PROVIDER_INUSE,
        )
    connection = session.connection()
    for model in (Inventory, ProviderTrait, ProviderAggregate):
        connection.execute(delete(model).where(model.provider_id == provider.id))
    connection.execute(delete(ResourceProvider).where(ResourceProvider.id == provider.id))
    changes.append_providers(session, [provider.uuid])


def _parent(session: Session, uuid: str, parent_uuid: str | None) -> ProviderRecord | None:
    if parent_uuid is None:
        return None
    if parent_uuid == uuid:
        raise errors.BadRequest(
            "parent provider UUID cannot be same as UUID. Please set parent provider UUID to None if there is no parent."
        )
    session.execute(select(ResourceProvider.id).where(ResourceProvider.uuid == parent_uuid).with_for_update()).all()
    try:
        return find(session, parent_uuid)
    except errors.NotFound:
        raise errors.BadRequest(f"parent provider UUID does not exist: {parent_uuid}.") from None


def _move(session: Session, provider: ProviderRecord, parent_uuid: str | None, *, reparenting: bool) -> None:
    if provider.parent_uuid is not None and not reparenting:
        word = "un-parenting" if parent_uuid is None else "re-parenting"
        raise errors.BadRequest(f"{word} a provider is not currently allowed before microversion 1.37.")
    parent = _known_parent(session, parent_uuid)
    roots = sorted({provider.root_id, *(() if parent is None else (parent.root_id,))})
    parents = _lock_trees(session, roots)
    below = _below(parents, provider.id)
    if parent is not None and parent.id in below:
        raise errors.BadRequest(
            f"creating loop in the provider tree is not allowed. {parent_uuid} stands below {provider.uuid}."
        )
    if provider.id not in parents or (parent is not None and parent.id not in parents):
        raise errors.Conflict("The provider tree was changed at the same time.", errors.CONCURRENT_UPDATE)
    _set(session, provider.id, parent_provider_id=None if parent is None else parent.id)
    _set_roots(session, below, provider.id if parent is None else parent.root_id)


def _known_parent(session: Session, uuid: str | None) -> ProviderRecord | None:
    if uuid is None:
        return None
    try:
        return find(session, uuid)
    except errors.NotFound:
        raise errors.BadRequest(f"parent provider UUID does not exist: {uuid}.") from None


def _lock_trees(session: Session, roots: Sequence[int]) -> dict[int, int | None]:
    """Returns {provider: its parent} of the trees with these roots.

    The query is repeated until it finds nothing new: its answer misses a child that was created while it waited for the
    lock of the parent's row. No child can be created below rows that are all locked.
    """
    provider = ResourceProvider
    query = (
        select(provider.id, provider.parent_provider_id)
        .where(or_(provider.root_provider_id.in_(roots), provider.id.in_(roots)))
        .order_by(provider.id)
        .with_for_update()
    )
    parents: dict[int, int | None] = {}
    while True:
        root_of = {row[0]: row[1] for row in session.execute(query)}
        if root_of.keys() == parents.keys():
            return root_of
        parents = root_of


def _below(parents: dict[int, int | None], top: int) -> set[int]:
    """Returns `top` and everything below it."""
    below = {top}
    while True:
        more = {child for child, parent in parents.items() if parent in below} - below
        if not more:
            return below
        below |= more


def _set(session: Session, provider_id: int, **values: Any) -> None:
    statement = update(ResourceProvider).where(ResourceProvider.id == provider_id)
    session.connection().execute(statement.values(updated_at=EpochNow(), **values))


def _set_roots(session: Session, provider_ids: Any, root_id: int | None) -> None:
    """`root_id` None: each provider becomes its own root."""
    statement = update(ResourceProvider).where(ResourceProvider.id.in_(sorted(provider_ids)))
    session.connection().execute(statement.values(root_provider_id=ROOT_ID if root_id is None else root_id))


def _free(session: Session, uuid: str, name: str) -> None:
    provider = ResourceProvider
    rows = session.execute(
        select(provider.uuid, provider.name).where(or_(provider.uuid == uuid, provider.name == name))
    )
    taken_names = []
    for row in rows:
        taken_names += [f"uuid: {uuid}"] if row.uuid == uuid else []
        taken_names += [f"name: {name}"] if row.name == name else []
    if taken_names:
        raise errors.Conflict(
            f"Conflicting resource provider {', '.join(taken_names)} already exists.", errors.DUPLICATE_NAME
        )
