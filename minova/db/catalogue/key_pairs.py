"""Key pairs of users."""

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from minova.db import models
from minova.objects.catalogue.key_pair import KeyPair
from minova.objects.catalogue.quota import UNLIMITED

Row = models.KeyPair


def add(session: Session, key_pair: KeyPair, limit: int, at: datetime) -> KeyPair | None:
    """Returns None if the user already has `limit` key pairs. Raises IntegrityError if the name is taken, or another
    transaction has added a key pair meanwhile.
    """
    used_numbers = {*session.scalars(select(Row.number).where(Row.user_id == key_pair.user_id))}
    if limit != UNLIMITED and len(used_numbers) >= limit:
        return None
    number = next(number for number in range(len(used_numbers) + 1) if number not in used_numbers)
    values = {name: getattr(key_pair, name) for name in ("user_id", "name", "type", "fingerprint", "public_key")}
    statement = insert(Row).values(**values, number=number, created_at=at)
    primary_key: Any = session.connection().execute(statement).inserted_primary_key
    return msgspec.structs.replace(key_pair, id=primary_key[0], created_at=at)


def remove(session: Session, user_id: str, name: str) -> bool:
    """Returns whether there was such a key pair."""
    result: Any = session.connection().execute(delete(Row).where(Row.user_id == user_id, Row.name == name))
    return bool(result.rowcount)


def find(session: Session, user_id: str, name: str) -> KeyPair | None:
    row = session.scalar(select(Row).where(Row.user_id == user_id, Row.name == name))
    return None if row is None else _to_object(row)


def page(session: Session, user_id: str, marker: str | None, limit: int) -> list[KeyPair]:
    """Returns key pairs of a user, by name. Raises LookupError if there is no key pair `marker`."""
    query = select(Row).where(Row.user_id == user_id).order_by(Row.name).limit(limit)
    if marker is not None:
        if find(session, user_id, marker) is None:
            raise LookupError(marker)
        query = query.where(Row.name > marker)
    return [_to_object(row) for row in session.scalars(query)]


def _to_object(row: models.KeyPair) -> KeyPair:
    names = ("id", "name", "user_id", "type", "fingerprint", "public_key", "created_at")
    return KeyPair(**{name: getattr(row, name) for name in names})
