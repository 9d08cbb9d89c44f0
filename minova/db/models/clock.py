"""The row of the cloud clock, and the time of the database server from which it starts. `minova.db.clock` advances it."""

from typing import Any

from sqlalchemy import (
    Connection,
    Double,
    event,
    insert,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.sql.functions import FunctionElement

from minova.db.models.base import Base

ROW = 1


class Clock(Base):
    """One row, made by the migration. `wall`: the server's wall clock at the last advance, seconds since the epoch."""

    __tablename__ = "clock"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    value: Mapped[float]
    wall: Mapped[float]


class EpochNow(FunctionElement[float]):
    """The server's wall clock, seconds since the epoch, moving also within a transaction. For people, and for `CloudNow`."""

    inherit_cache = True
    type = Double()


@compiles(EpochNow, "sqlite")
def _sqlite_now(element: Any, compiler: Any, **kw: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(EpochNow, "postgresql")
def _postgresql_now(element: Any, compiler: Any, **kw: Any) -> str:
    return "extract(epoch from clock_timestamp())::double precision"


@compiles(EpochNow, "mysql")
@compiles(EpochNow, "mariadb")
def _mariadb_now(element: Any, compiler: Any, **kw: Any) -> str:
    return "(unix_timestamp(sysdate(6)) + 0e0)"


@event.listens_for(Clock.__table__, "after_create")
def _insert_row(table: Any, connection: Connection, **_: Any) -> None:
    connection.execute(insert(table).values(id=ROW, value=EpochNow(), wall=EpochNow()))
