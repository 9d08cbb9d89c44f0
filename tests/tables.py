"""Databases with minova's tables and nothing in them. The tables are made once in each process of tests, and copied: to make
them takes longer than most tests. The cloud clock of each begins when it is copied.
"""

import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

from sqlalchemy import delete, insert
from sqlalchemy.engine import make_url

from minova.db import models
from minova.db.engine import Database
from minova.db.models.clock import ROW, Clock, EpochNow
from minova.db.upgrade import upgrade


def make_tables(url: str, now: float | None = None) -> None:
    """As `minova-manage db upgrade` makes them. `now`: what the cloud clock of a SQLite database shows, instead of the time."""
    _make(url, upgrade, now)


def create_all(url: str) -> None:
    """As the models say, without a revision."""
    _make(url, _create_all)


def delete_rows(url: str) -> None:
    """Leave the tables as they were made. Only numbers that the database gives go on."""
    db = Database(url)
    with db.write() as session:
        for table in reversed(models.Base.metadata.sorted_tables):
            session.connection().execute(delete(table))
        session.execute(insert(Clock).values(id=ROW, value=EpochNow(), wall=EpochNow()))
    db.close()


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
