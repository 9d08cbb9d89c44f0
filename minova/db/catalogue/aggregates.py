"""Host aggregates. There are few, so they are read all at once, and a change locks all of them."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from minova.db import models
from minova.objects.catalogue.aggregate import Aggregate

Row, Member = models.Aggregate, models.AggregateHost


def all_of(session: Session, *, lock: bool = False) -> dict[int, Aggregate]:
    """Returns all aggregates by id. `lock`: checks across several aggregates, such as one zone for a host, stay valid
    until the transaction ends.
    """
    query = select(Row).order_by(Row.id)
    if lock:
        query = query.with_for_update().execution_options(populate_existing=True)
    rows = session.scalars(query).all()
    hosts: dict[int, list[str]] = {}
    for aggregate_id, host in session.execute(select(Member.aggregate_id, Member.host).order_by(Member.host)):
        hosts.setdefault(aggregate_id, []).append(host)
    return {row.id: _to_object(row, hosts.get(row.id, ())) for row in rows}


def uuids_of_host(session: Session, host: str) -> list[str]:
    query = select(Row.uuid).join(Member, Member.aggregate_id == Row.id).where(Member.host == host)
    return list(session.scalars(query.order_by(Row.id)))


def add(session: Session, uuid: str, name: str, metadata: dict[str, str], at: datetime) -> Aggregate:
    """Raises IntegrityError if the name is taken."""
    values = {"uuid": uuid, "name": name, "created_at": at}
    primary_key: Any = (
        session.connection().execute(insert(Row).values(metadata_=metadata, **values)).inserted_primary_key
    )
    return Aggregate(id=primary_key[0], uuid=uuid, name=name, metadata=metadata, created_at=at)


def change(session: Session, aggregate_id: int, name: str, metadata: dict[str, str], at: datetime) -> None:
    """Raises IntegrityError if the name is taken."""
    values = {"name": name, "metadata_": metadata, "updated_at": at}
    session.connection().execute(update(Row).where(Row.id == aggregate_id).values(values))


def remove(session: Session, aggregate_id: int) -> None:
    session.connection().execute(delete(Row).where(Row.id == aggregate_id))


def add_host(session: Session, aggregate_id: int, host: str) -> None:
    session.connection().execute(insert(Member).values(aggregate_id=aggregate_id, host=host))


def remove_host(session: Session, aggregate_id: int, host: str) -> None:
    session.connection().execute(delete(Member).where(Member.aggregate_id == aggregate_id, Member.host == host))


def _to_object(row: models.Aggregate, hosts: Collection[str]) -> Aggregate:
    return Aggregate(
        id=row.id,
        uuid=row.uuid,
        name=row.name,
        metadata=row.metadata_,
        hosts=tuple(hosts),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
