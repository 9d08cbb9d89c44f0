"""Which errors of a database mean that it is away, which that the same may succeed again, and which neither."""

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.orm import Session

from minova import errors
from minova.db.engine import Database, is_away, is_retriable, when_committed


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


def test_a_database_that_cannot_be_opened_is_unavailable(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path}/no/such/folder/minova.sqlite")
    with pytest.raises(errors.ServiceUnavailable, match=r"^The database does not answer\.$"), db.read():
        pass
    with pytest.raises(errors.ServiceUnavailable, match=r"^The database does not answer\.$"):
        db.run(lambda session: session.execute(text("SELECT 1")))


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    writer = Database(url)
    writer.run(lambda session: session.execute(text("CREATE TABLE t (n INTEGER)")))
    with (
        pytest.raises(OperationalError, match="readonly"),
        Database(url, readonly=True).read() as session,
    ):
        session.execute(text("INSERT INTO t VALUES (1)"))


def test_busy_transaction_is_repeated_as_a_whole_a_limited_number_of_times(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path}/minova.sqlite")
    tries = []

    def work(_: object) -> str:
        tries.append(1)
        if len(tries) < 3:
            raise in_sqlalchemy(sqlite3.OperationalError("database is locked"))
        return "done"

    assert db.run(work) == "done"

    def never(_: object) -> str:
        raise in_sqlalchemy(sqlite3.OperationalError("database is locked"))

    with pytest.raises(errors.ServiceUnavailable, match="too busy"):
        db.run(never)


def test_bug_a_read_that_stays_busy_is_an_unavailable_database(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path}/minova.sqlite")
    with pytest.raises(errors.ServiceUnavailable, match="too busy"), db.read():
        raise in_sqlalchemy(sqlite3.OperationalError("database is locked"))


def test_no_value_of_a_statement_stands_in_an_error(tmp_path: Path) -> None:
    """It may be a password for a guest, and errors are logged whole."""
    db = Database(f"sqlite:///{tmp_path}/minova.sqlite")
    db.run(lambda session: session.execute(text("CREATE TABLE t (n TEXT UNIQUE)")))

    def work(session: Session) -> None:
        for _ in range(2):
            session.execute(text("INSERT INTO t VALUES (:password)"), {"password": "s3cret"})

    with pytest.raises(IntegrityError) as raised:
        db.run(work)
    assert "s3cret" not in str(raised.value)


def test_work_that_follows_a_commit_is_done_once_and_never_fails_it(tmp_path: Path) -> None:
    done: list[str] = []

    def fails() -> None:
        done.append("first")
        raise RuntimeError("no thread")

    db = Database(f"sqlite:///{tmp_path}/db")
    with db.write() as session:
        when_committed(session, fails)
        when_committed(session, lambda: done.append("second"))
        with session.begin_nested():
            session.execute(text("SELECT 1"))
        assert done == [], "a savepoint is no commit"
    assert done == ["first", "second"]
    with db.write() as session:
        when_committed(session, lambda: done.append("rolled back"))
        session.rollback()
    assert done == ["first", "second"]
    db.close()
