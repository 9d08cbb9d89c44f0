"""Rows of tokens that open consoles."""

from typing import NamedTuple

from sqlalchemy import ColumnElement, delete, insert, select
from sqlalchemy.orm import Session

from minova.db.clock import for_insert
from minova.db.models import ConsoleToken
from minova.objects.guests.console import ConsoleType


class OpenedConsole(NamedTuple):
    instance_uuid: str
    console_type: ConsoleType


def add(
    session: Session,
    token_hash: str,
    instance_uuid: str,
    console_type: ConsoleType,
    now: ColumnElement[float],
    seconds: float,
) -> None:
    """Adds a token that is valid for this many seconds. Removes expired tokens."""
    at = for_insert(session, now)
    connection = session.connection()
    connection.execute(delete(ConsoleToken).where(ConsoleToken.expires_at <= at))
    connection.execute(
        insert(ConsoleToken).values(
            token_hash=token_hash,
            instance_uuid=instance_uuid,
            console_type=console_type.value,
            expires_at=at + seconds,
        )
    )


def use(session: Session, token_hash: str, now: ColumnElement[float]) -> OpenedConsole | None:
    """Returns what the token opens, and removes the token. Of two concurrent requests with the same token, one gets
    None.
    """
    at = for_insert(session, now)
    row = session.execute(
        select(ConsoleToken.instance_uuid, ConsoleToken.console_type, ConsoleToken.expires_at > at).where(
            ConsoleToken.token_hash == token_hash
        )
    ).one_or_none()
    if row is None:
        return None
    removed = session.connection().execute(delete(ConsoleToken).where(ConsoleToken.token_hash == token_hash))
    if removed.rowcount != 1 or not row[2]:
        return None
    return OpenedConsole(row[0], ConsoleType(row[1]))
