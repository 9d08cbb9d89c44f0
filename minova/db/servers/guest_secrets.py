"""Secrets of guests, as they stand in the database: encrypted."""

from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from minova.db.models import GuestSecret


def of_instance(session: Session, uuid: str) -> dict[str, str]:
    """Returns {kind: encrypted value}."""
    query = select(GuestSecret.kind, GuestSecret.value).where(GuestSecret.instance_uuid == uuid)
    return {row.kind: row.value for row in session.execute(query)}


def write(session: Session, uuid: str, values: Mapping[str, str], at: datetime) -> None:
    """Writes {kind: encrypted value} of an instance that the caller has locked, in place of former values."""
    if not values:
        return
    connection = session.connection()
    connection.execute(
        delete(GuestSecret).where(GuestSecret.instance_uuid == uuid, GuestSecret.kind.in_(sorted(values)))
    )
    rows = [{"instance_uuid": uuid, "kind": kind, "value": value, "created_at": at} for kind, value in values.items()]
    connection.execute(insert(GuestSecret), rows)


def remove(session: Session, uuids: Collection[str]) -> None:
    session.connection().execute(delete(GuestSecret).where(GuestSecret.instance_uuid.in_(sorted(uuids))))
