"""Resource classes: the standard ones of os-resource-classes, and custom ones in a table."""

from collections.abc import Iterable

import msgspec
import os_resource_classes
from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from minova.db.models import Allocation, Inventory, ResourceClass
from minova.db.models.clock import EpochNow
from minova.placement import changes, errors

STANDARD = frozenset(os_resource_classes.STANDARDS)
_PLACES = {name: place for place, name in enumerate(os_resource_classes.STANDARDS)}


class NameRecord(msgspec.Struct, frozen=True):
    """A class or trait. `updated_at` is None for a standard one."""

    name: str
    updated_at: float | None = None


def listing(session: Session) -> list[NameRecord]:
    """Returns the standard classes in their own order, then custom ones by name."""
    rows = session.execute(select(ResourceClass.name, ResourceClass.updated_at).order_by(ResourceClass.name))
    return [
        *(NameRecord(name) for name in os_resource_classes.STANDARDS),
        *(NameRecord(row[0], row[1]) for row in rows),
    ]


def in_order(names: Iterable[str]) -> list[str]:
    """Sorts the names in the order of `listing`."""
    return sorted(names, key=lambda name: (_PLACES.get(name, len(_PLACES)), name))


def find(session: Session, name: str) -> NameRecord:
    """Raises NotFound if there is no such class."""
    if name in STANDARD:
        return NameRecord(name)
    row = session.execute(
        select(ResourceClass.name, ResourceClass.updated_at).where(ResourceClass.name == name)
    ).one_or_none()
    if row is None:
        raise _unknown([name])
    return NameRecord(row.name, row.updated_at)


def require(session: Session, names: Iterable[str], *, keep: bool = False) -> None:
    """Raises NotFound, which names the classes that do not exist. `keep`: custom ones cannot be removed before the
    transaction ends.
    """
    custom = sorted(set(names) - STANDARD)
    if not custom:
        return
    query = select(ResourceClass.name).where(ResourceClass.name.in_(custom)).order_by(ResourceClass.name)
    existing = set(session.scalars(query.with_for_update(read=True) if keep else query))
    missing = [name for name in custom if name not in existing]
    if missing:
        raise _unknown(missing)


def make(session: Session, name: str) -> bool:
    """Returns whether the class was created; False if it exists already."""
    if name in STANDARD:
        return False
    query = select(ResourceClass.name).where(ResourceClass.name == name)
    if session.scalar(query) is not None:
        return False
    session.connection().execute(insert(ResourceClass).values(name=name, updated_at=EpochNow()))
    return True


def rename(session: Session, name: str, new: str) -> None:
    """Renames the class everywhere. Raises NotFound if there is none, BadRequest for a standard class, Conflict if the
    new name is taken.
    """
    find(session, name)
    if name in STANDARD:
        raise errors.BadRequest(f"Cannot update standard resource class {name}.")
    if new != name and not make(session, new):
        raise errors.Conflict(f"Resource class already exists: {new}.")
    if new == name:
        return
    connection = session.connection()
    for model in (Inventory, Allocation):
        connection.execute(update(model).where(model.resource_class == name).values(resource_class=new))
    connection.execute(delete(ResourceClass).where(ResourceClass.name == name))
    changes.append(session, [changes.EVERY_NODE])


def remove(session: Session, name: str) -> None:
    """Raises NotFound if there is no such class, BadRequest for a standard class, Conflict if an inventory has it."""
    find(session, name)
    if name in STANDARD:
        raise errors.BadRequest(f"Error in delete resource class: Cannot delete standard resource class {name}.")
    # Delete the row first: a transaction that adds an inventory of the class locks the row until its commit, so the
    # inventory is seen below.
    session.connection().execute(delete(ResourceClass).where(ResourceClass.name == name))
    if session.scalar(select(Inventory.provider_id).where(Inventory.resource_class == name).limit(1)) is not None:
        raise errors.Conflict(
            f"Error in delete resource class: Cannot delete resource class {name}. Class is in use in inventory."
        )


def _unknown(names: list[str]) -> errors.NotFound:
    return errors.NotFound(f"No such resource class {', '.join(names)}.")
