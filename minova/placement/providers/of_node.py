"""The resource provider of a compute node: it has the node's uuid."""

from typing import Any, NamedTuple

from sqlalchemy import bindparam, or_, select, update
from sqlalchemy import delete as delete_rows
from sqlalchemy.orm import Session

from minova import errors
from minova.db.models import Allocation, Inventory, ProviderAggregate, ProviderTrait, ResourceProvider
from minova.db.models.clock import EpochNow
from minova.placement import changes
from minova.placement.inserts import insert_missing

# Built once: every audit of every node runs them. The id of the provider whose uuid is parameter `of`.
ID = select(ResourceProvider.id).where(ResourceProvider.uuid == bindparam("of"))
_NAMED = select(
    ResourceProvider.id, ResourceProvider.name, ResourceProvider.of_node, ResourceProvider.parent_provider_id
).where(ResourceProvider.uuid == bindparam("of"))

# The ids of that provider and of those below it. A root that an older service created may have NULL as its root.
TREE = select(ResourceProvider.id).where(
    or_(ResourceProvider.uuid == bindparam("of"), ResourceProvider.root_provider_id == ID.scalar_subquery())
)


def tree_of(uuid: str) -> Any:
    """`TREE` of this root, as a subquery."""
    root_id = select(ResourceProvider.id).where(ResourceProvider.uuid == uuid).scalar_subquery()
    return select(ResourceProvider.id).where(
        or_(ResourceProvider.uuid == uuid, ResourceProvider.root_provider_id == root_id)
    )


def ensure(session: Session, uuid: str, name: str) -> int:
    """Returns the id of a compute node's provider. Creates it on first use, and renames it if its name differs.

    Raises Conflict if another provider has the name, or the provider with this uuid is not a node's.
    """
    provider = _find(session, uuid)
    if provider is not None and provider.name != name and (provider.parent_id is not None or provider.of_node is False):
        raise errors.Conflict(f"Resource provider {uuid} is {provider.name!r}, and not that of node {name!r}.")
    if provider is None:
        insert_missing(session, ResourceProvider, [{"uuid": uuid, "name": name, "generation": 0, "of_node": True}])
        own_root = update(ResourceProvider).where(
            ResourceProvider.uuid == uuid, ResourceProvider.root_provider_id.is_(None)
        )
        session.connection().execute(own_root.values(root_provider_id=ResourceProvider.id, updated_at=EpochNow()))
        provider = _find(session, uuid)
    if provider is None:
        raise errors.Conflict(f"Another resource provider is named {name!r}; {uuid} cannot be made.")
    if provider.name != name:
        session.connection().execute(
            update(ResourceProvider).where(ResourceProvider.id == provider.id).values(name=name, updated_at=EpochNow())
        )
    return provider.id


class _FoundProvider(NamedTuple):
    id: int
    name: str
    of_node: bool | None
    parent_id: int | None


def _find(session: Session, uuid: str) -> _FoundProvider | None:
    row = session.execute(_NAMED, {"of": uuid}).one_or_none()
    return None if row is None else _FoundProvider(*row)


def delete(session: Session, uuid: str) -> None:
    """Removes the provider and those below it, with inventories and allocations. Does nothing if there is no such
    provider.
    """
    provider_id = session.scalar(ID, {"of": uuid})
    if provider_id is None:
        return
    connection = session.connection()
    tree = or_(ResourceProvider.id == provider_id, ResourceProvider.root_provider_id == provider_id)
    ids = sorted(session.scalars(select(ResourceProvider.id).where(tree)))
    # The providers' rows go last: claims lock inventories first, then (by the foreign key) the provider.
    for model in (Inventory, Allocation, ProviderTrait, ProviderAggregate):
        connection.execute(delete_rows(model).where(model.provider_id.in_(ids)))
    connection.execute(delete_rows(ResourceProvider).where(ResourceProvider.id.in_(ids)))
    changes.append_providers(session, [uuid])
