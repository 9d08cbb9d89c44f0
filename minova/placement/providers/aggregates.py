"""The aggregates of providers. Placement knows only their uuids."""

from collections.abc import Collection

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from minova.db.models import ProviderAggregate, ResourceProvider
from minova.placement import changes
from minova.placement.inserts import insert_missing
from minova.placement.providers.queries import ProviderRecord, raise_generation


def of_provider(session: Session, provider_id: int) -> list[str]:
    model = ProviderAggregate
    query = select(model.aggregate_uuid).where(model.provider_id == provider_id).order_by(model.aggregate_uuid)
    return list(session.scalars(query))


def set_aggregates(session: Session, provider: ProviderRecord, uuids: Collection[str], *, generation: bool) -> int:
    """Makes these the provider's aggregates. Returns its generation, which is raised only if `generation` is True.

    Raises Conflict if the provider has changed since it was read.
    """
    model, after = ProviderAggregate, set(uuids)
    before = set(of_provider(session, provider.id))
    connection = session.connection()
    if before - after:
        removed = sorted(before - after)
        connection.execute(delete(model).where(model.provider_id == provider.id, model.aggregate_uuid.in_(removed)))
    if after - before:
        rows = [{"provider_id": provider.id, "aggregate_uuid": uuid} for uuid in sorted(after - before)]
        connection.execute(insert(model), rows)
    if after != before:
        changes.append_providers(session, [provider.uuid])
    return raise_generation(session, provider) if generation else provider.generation


def join(session: Session, provider_uuids: Collection[str], aggregate_uuids: Collection[str]) -> None:
    """Adds these providers to these aggregates; they also stay in their other aggregates."""
    pairs = select(ResourceProvider.id).where(ResourceProvider.uuid.in_(provider_uuids))
    rows = [
        {"provider_id": provider_id, "aggregate_uuid": uuid}
        for provider_id in session.scalars(pairs.order_by(ResourceProvider.id))
        for uuid in sorted(aggregate_uuids)
    ]
    insert_missing(session, ProviderAggregate, rows)
    _change_generations(session, provider_uuids)


def leave(session: Session, provider_uuids: Collection[str], aggregate_uuid: str) -> None:
    """Removes these providers from the aggregate."""
    ids = select(ResourceProvider.id).where(ResourceProvider.uuid.in_(provider_uuids))
    model = ProviderAggregate
    session.connection().execute(
        delete(model).where(model.aggregate_uuid == aggregate_uuid, model.provider_id.in_(ids))
    )
    _change_generations(session, provider_uuids)


def _change_generations(session: Session, provider_uuids: Collection[str]) -> None:
    provider = ResourceProvider
    session.connection().execute(
        update(provider).where(provider.uuid.in_(provider_uuids)).values(generation=provider.generation + 1)
    )
