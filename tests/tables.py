"""Databases with minova's tables and nothing in them. The tables are made once in each process of tests, and copied: to make
them takes longer than most tests. The cloud clock of each begins when it is copied, and each is of a cloud of its own.
"""

import secrets
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import Table, delete, exists, insert, literal, select, union_all
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session

from minova.db import models
from minova.db.engine import Database
from minova.db.models.clock import ROW, Clock, EpochNow
from minova.db.models.cloud import Cloud
from minova.db.upgrade import upgrade

# By the names of their tables.
Rows: TypeAlias = dict[str, list[dict[str, Any]]]


def make_tables(url: str, now: float | None = None) -> None:
    """As `minova-manage db upgrade` makes them. `now`: what the cloud clock of a SQLite database shows, instead of the time."""
    _make(url, upgrade, now)


def prepare() -> None:
    """Makes what `make_tables` copies, once: what follows is the same for the first database of a process of tests and for later ones."""
    _sqlite_file(upgrade)


def create_all(url: str) -> None:
    """As the models say, without a revision."""
    _make(url, _create_all)


def delete_rows(url: str) -> None:
    """Leave the tables as they were made. Only numbers that the database gives go on."""
    db = Database(url)
    with db.write() as session:
        _delete(session)
        session.execute(insert(Clock).values(id=ROW, value=EpochNow(), wall=EpochNow()))
        session.execute(insert(Cloud).values(id=ROW, uuid=str(uuid.uuid4()), history=str(uuid.uuid4())))
    db.close()


def copy_rows(url: str) -> Rows:
    db = Database(url)
    with db.read() as session:
        full = _with_rows(session)
        rows = {table.name: [dict(row._mapping) for row in session.execute(select(table))] for table in full}
    db.close()
    return rows


def put_rows(url: str, rows: Rows) -> None:
    """These in place of all that there are. They must have been copied from this database: so no number of theirs is given again."""
    db = Database(url)
    with db.write() as session:
        _delete(session)
        _insert(session, rows)
    db.close()


def add_rows(url: str, rows: Rows) -> None:
    """Beside those that there are, of a SQLite file: it gives numbers after the highest one that there is."""
    db = Database(url)
    with db.write() as session:
        _insert(session, rows)
    db.close()


def _insert(session: Session, rows: Rows) -> None:
    for table in models.Base.metadata.sorted_tables:
        if table.name in rows:
            session.connection().execute(insert(table), rows[table.name])


def _delete(session: Session) -> None:
    for table in reversed(_with_rows(session)):
        session.connection().execute(delete(table))


def _with_rows(session: Session) -> list[Table]:
    """In the order in which rows may be inserted. Most tables are empty: one statement for all takes less than one for each."""
    every = models.Base.metadata.sorted_tables
    full = set(
        session.scalars(
            union_all(*(select(literal(table.name)).where(exists(select(1).select_from(table))) for table in every))
        )
    )
    return [table for table in every if table.name in full]


def _make(url: str, make: Callable[[str], object], now: float | None = None) -> None:
    parsed = make_url(url)
    file = Path(parsed.database or "")
    if parsed.get_backend_name() != "sqlite" or file.exists():
        make(url)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(_sqlite_file(make))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE clock SET value = :now, wall = :now", {"now": time.time() if now is None else now})
        names = {"uuid": str(uuid.uuid4()), "history": str(uuid.uuid4()), "secret": secrets.token_hex(32)}
        connection.execute("UPDATE cloud SET uuid = :uuid, history = :history, mark_secret = :secret", names)


@cache
def _sqlite_file(make: Callable[[str], object]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "minova.sqlite")
        make(f"sqlite:///{file}")
        return file.read_bytes()


def _create_all(url: str) -> None:
    db = Database(url)
    models.Base.metadata.create_all(db.engine)
    db.close()
