"""The cloud clock: the one clock of leases, deadlines and heartbeats. It never runs backwards and never jumps.

A row holds its value and the time of the database server's wall clock when the row was written. The current time is
that value plus the wall time since then, limited to between 0 and MAX_STEP seconds. Every conductor advances the row
once a second. So a step of the server's clock in either direction shifts the cloud clock by at most MAX_STEP seconds,
and the clock stands still while no conductor can write: see docs/decisions/0018.
"""

from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Double,
    case,
    exists,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session
from sqlalchemy.sql.functions import FunctionElement

from minova.db.models import Worker
from minova.db.models.clock import ROW, Clock

# Seconds between two advances by one conductor.
ADVANCE_INTERVAL = 1.0
# The most seconds that the clock moves between two advances. Less than any useful lease or down time, and more than a
# busy conductor needs for an advance.
MAX_STEP = 3.0
# If several conductors advance the clock at nearly the same time, one advance is enough.
_AT_LEAST = ADVANCE_INTERVAL / 2


class _Greatest(FunctionElement[float]):
    inherit_cache = True
    type = Double()
    names = ("greatest", "max")


class _Least(FunctionElement[float]):
    inherit_cache = True
    type = Double()
    names = ("least", "min")


@compiles(_Greatest)
@compiles(_Least)
def _compile(element: Any, compiler: Any, **kw: Any) -> str:
    name = element.names[compiler.dialect.name == "sqlite"]
    return f"{name}({compiler.process(element.clauses, **kw)})"


class CloudNow(FunctionElement[float]):
    """The cloud clock as an expression; `wall` is the server's."""

    inherit_cache = True
    type = Double()

    def __init__(self, wall: ColumnElement[float]) -> None:
        self.wall = wall
        value = select(Clock.value + _elapsed(wall)).where(Clock.id == ROW).scalar_subquery()
        super().__init__(value)


@compiles(CloudNow)
def _cloud_now(element: Any, compiler: Any, **kw: Any) -> str:
    return str(compiler.process(element.clauses, **kw))


def later(first: Any, second: Any) -> ColumnElement[float]:
    """The later of two times."""
    return _Greatest(first, second)


def advance(session: Session, wall: ColumnElement[float]) -> None:
    """Brings the row up to date. Needs a transaction of its own, because it locks the row.

    Conductors of the release before this clock compare leases and heartbeats with the wall clock. While one of their
    workers is known, the clock follows the wall clock forwards, however far.
    """
    session.connection().execute(_advance(wall))


@lru_cache(maxsize=4)
def _advance(wall: ColumnElement[float]) -> Any:
    """Built once for each clock: every conductor runs it once a second."""
    lacks_clock = exists().where(Worker.cloud_clock.is_(None))
    moved = Clock.value + _elapsed(wall)
    # Order matters: MariaDB assigns from left to right, and the value needs the old wall time.
    values = [(Clock.value, case((lacks_clock, later(moved, wall)), else_=moved)), (Clock.wall, wall)]
    statement = update(Clock).where(Clock.id == ROW, or_(wall < Clock.wall, wall > Clock.wall + _AT_LEAST))
    return statement.ordered_values(*values)


def for_insert(session: Session, now: ColumnElement[float]) -> ColumnElement[float]:
    """Returns `now` for an INSERT or a DELETE. On MariaDB such a statement would lock the clock's row until the end of
    the transaction, so the clock is read in a statement before it.
    """
    if not isinstance(now, BindParameter) and session.connection().dialect.name in {"mysql", "mariadb"}:
        return literal(session.scalar(_reading(now)), Double())
    return now


@lru_cache(maxsize=4)
def _reading(now: ColumnElement[float]) -> Any:
    """Built once for each clock."""
    return select(now)


def wall_of(now: Any) -> Any:
    """The server's wall clock at `now`."""
    return now.wall if isinstance(now, CloudNow) else now


def _elapsed(wall: ColumnElement[float]) -> ColumnElement[float]:
    return _Greatest(literal(0.0), _Least(wall - Clock.wall, literal(MAX_STEP)))
