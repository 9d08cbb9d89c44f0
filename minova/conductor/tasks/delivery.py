"""Executes a message once, though the broker may deliver it twice or late.

The first transaction that a message makes also writes its ID. A second delivery finds the ID and is refused before it changes
anything; where the first delivery was refused, the ID is written, too, because its refusal has been answered.
"""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import BindParameter, ColumnElement, Insert, insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.db.clock import for_insert
from minova.db.models import ExecutedMessage
from minova.log import Delivery, bound_delivery

T = TypeVar("T")
_EXECUTED: Any = ExecutedMessage.__table__


def executed_once(
    run: Callable[[Callable[[Session], Any]], Any],
    work: Callable[[Session], T],
    at: datetime,
    now: ColumnElement[float],
) -> T:
    """Runs one transaction of the message that this thread works for. `run`: runs a transaction.

    Raises ServiceUnavailable if the message has been executed before.
    """
    delivery = bound_delivery()
    if delivery is None or delivery.noted:
        answered: T = run(work)
        return answered

    def noted(session: Session) -> T:
        _note(session, delivery, at, now)
        return work(session)

    try:
        answer: T = run(noted)
    except errors.ServiceUnavailable:
        raise
    except errors.MinovaError:
        run(lambda session: _note(session, delivery, at, now))
        delivery.noted = True
        raise
    delivery.noted = True
    return answer


# Built once: to build it takes longer than to run it, and most messages of hosts need it.
_INSERT = insert(_EXECUTED)


@lru_cache(4)
def _insert_by(clock: ColumnElement[float]) -> Insert:
    """The same, with the database's clock, which is one expression, made once."""
    return _INSERT.values(executed_since=clock)


def _note(session: Session, delivery: Delivery, at: datetime, now: ColumnElement[float]) -> None:
    row: dict[str, Any] = {"id": delivery.message, "executed_at": at}
    since = for_insert(session, now)
    if isinstance(since, BindParameter):
        statement, row["executed_since"] = _INSERT, since.value
    else:
        statement = _insert_by(since)
    try:
        session.connection().execute(statement, row)
    except IntegrityError:
        raise errors.ServiceUnavailable("This message has been executed before.") from None
