"""Which errors of a database mean that it is away, which that the same may succeed again, and which neither."""

import sqlite3

import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from minova.db.connections.failures import is_away, is_retriable


class FromServer(Exception):
    """As psycopg and PyMySQL raise them."""

    def __init__(self, code: object) -> None:
        super().__init__(code, "text")
        if isinstance(code, str):
            self.sqlstate = code


FromServer.__module__ = "psycopg.errors"


class FromMariaDB(Exception):
    """PyMySQL's have the code as first argument."""


class WithState(FromMariaDB):
    """PyMySQL's have a SQLSTATE too since 1.2."""

    sqlstate = "HY000"


def in_sqlalchemy(original: Exception, kind: type[DBAPIError] = OperationalError) -> DBAPIError:
    return kind("SELECT 1", {}, original)


@pytest.mark.parametrize(
    ("error", "away", "retriable"),
    [
        (in_sqlalchemy(sqlite3.OperationalError("unable to open database file")), True, False),
        (in_sqlalchemy(sqlite3.OperationalError("database is locked")), False, True),
        (in_sqlalchemy(sqlite3.OperationalError("database or disk is full")), True, False),
        (in_sqlalchemy(sqlite3.OperationalError("no such table: x")), False, False),
        (in_sqlalchemy(FromServer("57P01")), True, False),
        (in_sqlalchemy(FromServer("08006")), True, False),
        (in_sqlalchemy(FromServer("53300")), True, False),
        (in_sqlalchemy(FromServer("40P01")), False, True),
        (in_sqlalchemy(FromServer("42P01")), False, False),
        (in_sqlalchemy(FromMariaDB(2003, "cannot connect")), True, False),
        (in_sqlalchemy(FromMariaDB(2013, "lost")), True, False),
        (in_sqlalchemy(FromMariaDB(1040, "too many connections")), True, False),
        (in_sqlalchemy(FromMariaDB(1213, "deadlock")), False, True),
        (in_sqlalchemy(FromMariaDB(1290, "--read-only")), True, False),
        (in_sqlalchemy(FromServer("25006")), True, False),
        (in_sqlalchemy(WithState(1205, "lock wait time-out")), False, True),
        (in_sqlalchemy(FromMariaDB(1054, "unknown column")), False, False),
        (in_sqlalchemy(sqlite3.IntegrityError("UNIQUE"), IntegrityError), False, False),
    ],
    ids=lambda value: str(value.orig) if isinstance(value, DBAPIError) else "",
)
def test_what_an_error_means(error: DBAPIError, away: bool, retriable: bool) -> None:
    assert (is_away(error), is_retriable(error)) == (away, retriable)
