"""Times of the cloud clock that rows of an earlier release lack."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, exists, select, true, update
from sqlalchemy.orm import Session

from minova.db.models import ExecutedMessage, Instance, Migration
from minova.objects.servers.states import VmState


class ClockColumn(NamedTuple):
    """A column with a time of the cloud clock, and the rows of its table that have one."""

    model: Any
    name: str
    condition: ColumnElement[bool]

    @property
    def lacks(self) -> ColumnElement[bool]:
        return and_(self.condition, getattr(self.model, self.name).is_(None))


# When a server was shelved or soft-deleted: later it leaves its host, or is removed for good.
OF_SERVERS = tuple(
    ClockColumn(Instance, name, and_(Instance.vm_state == state, Instance.deleted_at.is_(None)))
    for name, state in (("shelved_since", VmState.SHELVED), ("soft_deleted_since", VmState.SOFT_DELETED))
)
# When the retention of a record began.
OF_RECORDS = (
    ClockColumn(Instance, "deleted_since", Instance.deleted_at.is_not(None)),
    ClockColumn(ExecutedMessage, "executed_since", true()),
    ClockColumn(Migration, "changed_at", true()),
)


def are_unknown(session: Session, columns: Sequence[ClockColumn]) -> bool:
    return any(_is_unknown(session, column) for column in columns)


def begin(session: Session, columns: Sequence[ClockColumn], now: ColumnElement[float]) -> None:
    """Writes the present time into rows that lack one."""
    for column in columns:
        if _is_unknown(session, column):
            table: Any = column.model.__table__
            session.connection().execute(update(table).where(column.lacks).values({column.name: now}))


def _is_unknown(session: Session, column: ClockColumn) -> bool:
    return bool(session.scalar(select(exists().where(column.lacks))))
