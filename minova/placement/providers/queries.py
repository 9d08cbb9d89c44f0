"""Queries of resource providers: one by its uuid, or those that pass a filter."""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import func, or_, select, update
from sqlalchemy.orm import Session, aliased
from sqlalchemy.sql import ColumnElement

from minova.db.models.clock import EpochNow
from minova.db.models.placement import MAX_INT, Inventory, ProviderAggregate, ProviderTrait, ResourceProvider
from minova.placement import errors

Parent = aliased(ResourceProvider)
Root = aliased(ResourceProvider)
# The column is NULL for a root that an older service has created.
ROOT_ID = func.coalesce(ResourceProvider.root_provider_id, ResourceProvider.id)


class ProviderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One resource provider. `updated_at`: seconds since the epoch, None if not recorded."""

    id: int
    uuid: str
    name: str
    generation: int
    root_id: int
    parent_id: int | None
    root_uuid: str
    parent_uuid: str | None
    updated_at: float | None


class ProviderFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on a provider. `required` and `member_of`: sets; the provider must have at least one element of each
    set.
    """

    name: str | None = None
    uuid: str | None = None
    in_tree: str | None = None
    resources: dict[str, int] = {}
    required: Sequence[frozenset[str]] = ()
    forbidden: frozenset[str] = frozenset()
    member_of: Sequence[frozenset[str]] = ()
    not_member_of: frozenset[str] = frozenset()


def find(session: Session, uuid: str) -> ProviderRecord:
    """Raises NotFound if there is no such provider."""
    row = session.execute(_select().where(ResourceProvider.uuid == uuid)).one_or_none()
    if row is None:
        raise errors.NotFound(f"No resource provider with uuid {uuid} found")
    return _record(row)


def matching(session: Session, provider_filter: ProviderFilter) -> list[ProviderRecord]:
    """Returns the providers that match, in the order of their creation."""
    if any(amount > MAX_INT for amount in provider_filter.resources.values()):
        return []
    query = _select().where(*_conditions(provider_filter)).order_by(ResourceProvider.id)
    return [_record(row) for row in session.execute(query)]


def raise_generation(session: Session, provider: ProviderRecord) -> int:
    """Returns the new generation. Raises Conflict if the generation is no longer that of the record."""
    statement = (
        update(ResourceProvider)
        .where(ResourceProvider.id == provider.id, ResourceProvider.generation == provider.generation)
        .values(generation=provider.generation + 1, updated_at=EpochNow())
    )
    result: Any = session.connection().execute(statement)
    if result.rowcount != 1:
        raise errors.Conflict(
            f"Resource provider {provider.uuid} was changed by another request at the same time. Read it and repeat the update",
            errors.CONCURRENT_UPDATE,
        )
    return provider.generation + 1


def _select() -> Any:
    provider = ResourceProvider
    return (
        select(
            provider.id,
            provider.uuid,
            provider.name,
            provider.generation,
            ROOT_ID.label("root_id"),
            provider.parent_provider_id,
            func.coalesce(Root.uuid, provider.uuid).label("root_uuid"),
            Parent.uuid.label("parent_uuid"),
            provider.updated_at,
        )
        .outerjoin(Root, Root.id == provider.root_provider_id)
        .outerjoin(Parent, Parent.id == provider.parent_provider_id)
    )


def _record(row: Any) -> ProviderRecord:
    return ProviderRecord(
        id=row.id,
        uuid=row.uuid,
        name=row.name,
        generation=row.generation,
        root_id=row.root_id,
        parent_id=row.parent_provider_id,
        root_uuid=row.root_uuid,
        parent_uuid=row.parent_uuid,
        updated_at=row.updated_at,
    )


def _conditions(provider_filter: ProviderFilter) -> list[ColumnElement[bool]]:
    provider = ResourceProvider
    conditions: list[ColumnElement[bool]] = []
    if provider_filter.name is not None:
        conditions.append(provider.name == provider_filter.name)
    if provider_filter.uuid is not None:
        conditions.append(provider.uuid == provider_filter.uuid)
    if provider_filter.in_tree is not None:
        of_tree = aliased(ResourceProvider)
        root = (
            select(func.coalesce(of_tree.root_provider_id, of_tree.id))
            .where(of_tree.uuid == provider_filter.in_tree)
            .scalar_subquery()
        )
        conditions.append(or_(provider.root_provider_id == root, provider.id == root))
    conditions += [_having(ProviderTrait, ProviderTrait.trait, names) for names in provider_filter.required]
    conditions += [
        _having(ProviderAggregate, ProviderAggregate.aggregate_uuid, names) for names in provider_filter.member_of
    ]
    if provider_filter.forbidden:
        conditions.append(~_having(ProviderTrait, ProviderTrait.trait, provider_filter.forbidden))
    if provider_filter.not_member_of:
        conditions.append(~_having(ProviderAggregate, ProviderAggregate.aggregate_uuid, provider_filter.not_member_of))
    conditions += [_room(name, amount) for name, amount in sorted(provider_filter.resources.items())]
    return conditions


def _having(model: Any, column: Any, values: frozenset[str]) -> ColumnElement[bool]:
    return ResourceProvider.id.in_(select(model.provider_id).where(column.in_(sorted(values))))


def _room(name: str, amount: int) -> ColumnElement[bool]:
    return ResourceProvider.id.in_(
        select(Inventory.provider_id).where(
            Inventory.resource_class == name,
            Inventory.used + amount <= Inventory.capacity,
            Inventory.min_unit <= amount,
            Inventory.max_unit >= amount,
            amount % Inventory.step_size == 0,
        )
    )
