"""The inventories of a compute node's provider, as its audits publish them. Only claims change `used`."""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from minova import errors
from minova.db import models
from minova.db.models.clock import EpochNow
from minova.objects.hosts.compute_node import ComputeNode, Inventory
from minova.placement import changes
from minova.placement.providers import of_node

_FIELDS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio", "capacity")

# Built once: every audit of every node runs it.
_KNOWN = (
    select(
        models.Inventory.provider_id,
        models.Inventory.resource_class,
        models.Inventory.used,
        *(getattr(models.Inventory, name) for name in _FIELDS),
    )
    .where(models.Inventory.provider_id == of_node.ID.scalar_subquery())
    .order_by(models.Inventory.provider_id, models.Inventory.resource_class)
    .with_for_update()
)

_RATIOS = select(models.Inventory.resource_class, models.Inventory.allocation_ratio).where(
    models.Inventory.provider_id == of_node.ID.scalar_subquery()
)


def set_inventories(session: Session, provider_uuid: str, inventories: Sequence[Inventory]) -> bool:
    """Makes these the provider's inventories. Returns whether anything changed; if so, raises the provider's
    generation.

    An inventory with `keeps_ratio` keeps the ratio that is already set. A class that is gone but still used stays with
    capacity 0 until its last allocation is released.

    Raises NotFound if there is no such provider.
    """
    rows = session.execute(_KNOWN, {"of": provider_uuid}).all()
    provider_id = rows[0].provider_id if rows else session.scalar(of_node.ID, {"of": provider_uuid})
    if provider_id is None:
        raise errors.NotFound(f"No resource provider {provider_uuid}.")
    before = {row.resource_class: (row.used, {name: getattr(row, name) for name in _FIELDS}) for row in rows}
    after = {
        inventory.resource_class: {name: getattr(inventory, name) for name in _FIELDS}
        for inventory in (
            _with_known_ratio(inventory, before.get(inventory.resource_class)) for inventory in inventories
        )
    }
    for resource_class, (used, values) in before.items():
        if resource_class not in after and used:
            after[resource_class] = {**values, "total": 0, "reserved": 0, "capacity": 0}
    changed = [name for name in sorted({*before, *after}) if before.get(name, (0, None))[1] != after.get(name)]
    if not changed:
        return False
    for resource_class in changed:
        _write(session, provider_id, resource_class, after.get(resource_class), new=resource_class not in before)
    provider = models.ResourceProvider
    session.connection().execute(
        update(provider)
        .where(provider.id == provider_id)
        .values(generation=provider.generation + 1, updated_at=EpochNow())
    )
    changes.append_providers(session, [provider_uuid])
    return True


def ratios_of(session: Session, provider_uuid: str) -> dict[str, float]:
    """Returns the allocation ratio of each resource class of the provider."""
    return {
        row.resource_class: row.allocation_ratio for row in session.connection().execute(_RATIOS, {"of": provider_uuid})
    }


def with_ratios(session: Session, node: ComputeNode) -> ComputeNode:
    """Returns the node with the allocation ratios of its inventories, by which claims count: ratios set through Placement
    stand in the row from the next audit on.
    """
    ratios = ratios_of(session, node.uuid)
    return msgspec.structs.replace(
        node,
        cpu_allocation_ratio=ratios.get("VCPU", node.cpu_allocation_ratio),
        ram_allocation_ratio=ratios.get("MEMORY_MB", node.ram_allocation_ratio),
        disk_allocation_ratio=ratios.get("DISK_GB", node.disk_allocation_ratio),
    )


def _with_known_ratio(inventory: Inventory, before: tuple[int, dict[str, Any]] | None) -> Inventory:
    if before is None or not inventory.keeps_ratio:
        return inventory
    return msgspec.structs.replace(inventory, allocation_ratio=before[1]["allocation_ratio"])


def _write(
    session: Session, provider_id: int, resource_class: str, values: dict[str, Any] | None, *, new: bool
) -> None:
    model = models.Inventory
    key = (model.provider_id == provider_id, model.resource_class == resource_class)
    if values is None:
        session.connection().execute(delete(model).where(*key))
    elif new:
        session.connection().execute(
            insert(model).values(
                provider_id=provider_id, resource_class=resource_class, used=0, updated_at=EpochNow(), **values
            )
        )
    else:
        session.connection().execute(update(model).where(*key).values(updated_at=EpochNow(), **values))
