"""Inventories as Placement's API changes them: guarded by the provider generation, refusing changes that would strand
allocations.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec
from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from minova.db.models import placement as models
from minova.db.models.clock import EpochNow
from minova.db.models.placement import MAX_INT
from minova.placement import changes, errors
from minova.placement.providers import resource_classes
from minova.placement.providers.queries import ProviderRecord, raise_generation


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one inventory. The defaults are Placement's."""

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = MAX_INT
    step_size: int = 1
    allocation_ratio: float = 1.0

    @property
    def capacity(self) -> int:
        """What can be allocated, limited to the largest number that a column can store if the ratio is very large."""
        return int(min((self.total - self.reserved) * self.allocation_ratio, MAX_INT))


class StoredInventory(msgspec.Struct, frozen=True, kw_only=True):
    """An inventory as it is stored. `updated_at`: seconds since the epoch, None if not recorded."""

    numbers: Numbers
    used: int
    updated_at: float | None


def of_provider(session: Session, provider_id: int, *, lock: bool = False) -> dict[str, StoredInventory]:
    """Returns {resource class: inventory}, sorted by class. `lock`: locks the rows until the transaction ends."""
    model = models.Inventory
    query = select(model).where(model.provider_id == provider_id).order_by(model.provider_id, model.resource_class)
    rows = session.scalars(query.with_for_update() if lock else query)
    fields = Numbers.__struct_fields__
    return {
        row.resource_class: StoredInventory(
            numbers=Numbers(**{name: getattr(row, name) for name in fields}), used=row.used, updated_at=row.updated_at
        )
        for row in rows
    }


def add(session: Session, provider: ProviderRecord, name: str, numbers: Numbers) -> int:
    """Returns the provider's new generation. Raises NotFound if there is no such class, Conflict if the provider
    already has an inventory of it.
    """
    inventories = of_provider(session, provider.id, lock=True)
    resource_classes.require(session, [name], keep=True)
    if name in inventories:
        raise errors.Conflict(
            f"Update conflict: resource provider {provider.uuid} has an inventory of class {name} already.",
            errors.CONCURRENT_UPDATE,
        )
    return _apply(session, provider, inventories, (), {name: numbers})


def change(session: Session, provider: ProviderRecord, name: str, numbers: Numbers) -> int:
    """Returns the provider's new generation. Raises BadRequest if it has no inventory of this class."""
    inventories = of_provider(session, provider.id, lock=True)
    if name not in inventories:
        raise errors.BadRequest(
            f"No inventory record with resource class for resource provider {provider.uuid}: "
            f"No inventory of class {name} found."
        )
    return _apply(session, provider, inventories, (), {name: numbers})


def replace(session: Session, provider: ProviderRecord, numbers: Mapping[str, Numbers], *, union: bool = False) -> int:
    """Makes these the provider's only inventories. Returns its new generation. `union`: keeps its other inventories.

    Raises NotFound if there is no such class, Conflict if an inventory to be removed is in use.
    """
    inventories = of_provider(session, provider.id, lock=True)
    resource_classes.require(session, numbers, keep=True)
    going = () if union else inventories.keys() - numbers.keys()
    return _apply(session, provider, inventories, going, numbers)


def remove(session: Session, provider: ProviderRecord, name: str) -> int:
    """Returns the provider's new generation. Raises NotFound if it has no inventory of this class, Conflict if it is in
    use.
    """
    inventories = of_provider(session, provider.id, lock=True)
    if name not in inventories:
        raise errors.NotFound(
            f"No inventory of class {name} found for delete: resource provider {provider.uuid} has none of it."
        )
    return _apply(session, provider, inventories, [name], {})


def _apply(
    session: Session,
    provider: ProviderRecord,
    inventories: Mapping[str, StoredInventory],
    going: Collection[str],
    numbers: Mapping[str, Numbers],
) -> int:
    used = resource_classes.in_order(name for name in going if inventories[name].used)
    if used:
        raise errors.Conflict(
            f"update conflict: Inventory for '{', '.join(used)}' on resource provider '{provider.uuid}' in use.",
            errors.INVENTORY_INUSE,
        )
    model, connection = models.Inventory, session.connection()
    if going:
        removed = model.resource_class.in_(sorted(going))
        connection.execute(delete(model).where(model.provider_id == provider.id, removed))
    for name in sorted(numbers):
        connection.execute(_statement(provider.id, name, numbers[name], new=name not in inventories))
    changes.append_providers(session, [provider.uuid])
    return raise_generation(session, provider)


def _statement(provider_id: int, name: str, numbers: Numbers, *, new: bool) -> Any:
    model = models.Inventory
    values = {**msgspec.structs.asdict(numbers), "capacity": numbers.capacity, "updated_at": EpochNow()}
    if new:
        return insert(model).values(provider_id=provider_id, resource_class=name, used=0, **values)
    return update(model).where(model.provider_id == provider_id, model.resource_class == name).values(**values)


def check_capacity(provider_uuid: str, inventories: Iterable[tuple[str, Numbers]], *, may_be_zero: bool) -> None:
    """Raises BadRequest if more is reserved than the total; or all of it, unless `may_be_zero` (from microversion
    1.26).
    """
    for name, numbers in inventories:
        capacity = (numbers.total - numbers.reserved) * numbers.allocation_ratio
        if capacity < 0 or (capacity == 0 and not may_be_zero):
            word = "greater than" if may_be_zero else "greater than or equal to"
            raise errors.BadRequest(
                f"Invalid inventory for '{name}' on resource provider '{provider_uuid}'. "
                f"The reserved value is {word} total."
            )
