"""Traits: the standard ones of os-traits, custom ones in a table, and the traits of each provider."""

from collections.abc import Collection, Iterable
from functools import cache
from typing import Any

import os_traits
from sqlalchemy import Select, delete, insert, select
from sqlalchemy.orm import Session

from minova.db.models import ProviderTrait, Trait
from minova.db.models.clock import EpochNow
from minova.db.sql import chunked
from minova.placement import changes, errors
from minova.placement.inserts import insert_missing
from minova.placement.providers.queries import ProviderRecord, raise_generation
from minova.placement.providers.resource_classes import NameRecord


@cache
def standard() -> frozenset[str]:
    return frozenset(os_traits.get_traits())


def in_order(names: Iterable[str]) -> list[str]:
    """Sorts standard traits first, each kind by name."""
    return sorted(names, key=lambda name: (name not in standard(), name))


def listing(
    session: Session, *, names: Collection[str] | None = None, prefix: str = "", associated: bool | None = None
) -> list[NameRecord]:
    """Returns traits in order.

    `names`: only these.
    `prefix`: only those that begin with it.
    `associated`: whether any provider has them.
    """
    updated_at = dict.fromkeys(standard())
    updated_at.update({row.name: row.updated_at for row in session.execute(select(Trait.name, Trait.updated_at))})
    if associated is not None:
        of_providers = set(session.scalars(select(ProviderTrait.trait).distinct()))
        updated_at = {name: at for name, at in updated_at.items() if (name in of_providers) == associated}
    listed = updated_at if names is None else updated_at.keys() & set(names)
    return [NameRecord(name, updated_at[name]) for name in in_order(listed) if name.startswith(prefix)]


def find(session: Session, name: str) -> NameRecord:
    """Raises NotFound if there is no such trait."""
    if name in standard():
        return NameRecord(name)
    row = session.execute(select(Trait.name, Trait.updated_at).where(Trait.name == name)).one_or_none()
    if row is None:
        raise _unknown([name])
    return NameRecord(row.name, row.updated_at)


def require(session: Session, names: Iterable[str], *, keep: bool = False) -> None:
    """Raises NotFound, which names the traits that do not exist. `keep`: custom ones cannot be removed before the
    transaction ends.
    """
    custom = sorted(set(names) - standard())
    if not custom:
        return
    query = select(Trait.name).where(Trait.name.in_(custom)).order_by(Trait.name)
    existing = set(session.scalars(query.with_for_update(read=True) if keep else query))
    missing = [name for name in custom if name not in existing]
    if missing:
        raise _unknown(missing)


def make(session: Session, name: str) -> bool:
    """Returns whether the trait was created; False if it exists already."""
    if name in standard() or session.scalar(select(Trait.name).where(Trait.name == name)) is not None:
        return False
    session.connection().execute(insert(Trait).values(name=name, updated_at=EpochNow()))
    return True


def make_several(session: Session, names: Collection[str]) -> None:
    """Creates those of these custom traits that do not exist. Safe against other transactions that create them."""
    existing = {name for some in chunked(sorted(names)) for name in session.scalars(_query_by_names(some))}
    missing = sorted(set(names) - existing)
    at = session.scalar(select(EpochNow())) if missing else None
    insert_missing(session, Trait, [{"name": name, "updated_at": at} for name in missing])


def remove_unused(session: Session, names: Collection[str]) -> None:
    """Removes those of these custom traits that no provider has."""
    for some in chunked(sorted(names)):
        # Locked first: a transaction that gives a provider one of them holds its row until its commit (`require`), so that the
        # provider is seen below.
        session.scalars(_query_by_names(some).order_by(Trait.name).with_for_update()).all()
        used = set(session.scalars(select(ProviderTrait.trait).where(ProviderTrait.trait.in_(some)).distinct()))
        session.connection().execute(delete(Trait).where(Trait.name.in_(sorted(set(some) - used))))


def _query_by_names(names: Collection[str]) -> Select[Any]:
    return select(Trait.name).where(Trait.name.in_(names))


def remove(session: Session, name: str) -> None:
    """Raises NotFound if there is no such trait, BadRequest for a standard trait, Conflict if a provider has it."""
    find(session, name)
    if name in standard():
        raise errors.BadRequest(f"Cannot delete standard trait {name}.")
    # Delete the row first: a transaction that sets the trait on a provider locks the row until its commit, so that
    # provider is seen below.
    session.connection().execute(delete(Trait).where(Trait.name == name))
    if session.scalar(select(ProviderTrait.provider_id).where(ProviderTrait.trait == name).limit(1)) is not None:
        raise errors.Conflict(f"The trait {name} is in use by a resource provider.")


# -- of providers ------------------------------------------------------------------------------------------------------


def of_provider(session: Session, provider_id: int) -> list[NameRecord]:
    """Returns the provider's traits by name."""
    query = (
        select(ProviderTrait.trait, Trait.updated_at)
        .outerjoin(Trait, Trait.name == ProviderTrait.trait)
        .where(ProviderTrait.provider_id == provider_id)
        .order_by(ProviderTrait.trait)
    )
    return [NameRecord(row.trait, row.updated_at) for row in session.execute(query)]


def set_traits(session: Session, provider: ProviderRecord, names: Collection[str]) -> int:
    """Makes these the provider's traits. Returns its generation, which is raised if anything changed.

    Raises NotFound if there is no such trait, Conflict if the provider has changed since it was read.
    """
    require(session, names, keep=True)
    model, after = ProviderTrait, set(names)
    before = set(session.scalars(select(model.trait).where(model.provider_id == provider.id)))
    if after == before:
        return provider.generation
    connection = session.connection()
    if before - after:
        connection.execute(delete(model).where(model.provider_id == provider.id, model.trait.in_(before - after)))
    if after - before:
        rows = [{"provider_id": provider.id, "trait": name} for name in sorted(after - before)]
        connection.execute(insert(model), rows)
    changes.append_providers(session, [provider.uuid])
    return raise_generation(session, provider)


def _unknown(names: list[str]) -> errors.NotFound:
    return errors.NotFound(f"No such trait(s): {', '.join(names)}.")
