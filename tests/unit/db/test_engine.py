"""Transactions, their repetition, and what follows a commit."""

import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.orm import Session

from minova import errors
from minova.db.engine import Database, when_committed


def in_sqlalchemy(original: Exception) -> DBAPIError:
    return OperationalError("SELECT 1", {}, original)


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


def test_a_session_has_one_connection_for_each_transaction(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/a.sqlite")
    with database.write() as session:
        first = session.connection()
        assert session.connection() is first
        with suppress(ZeroDivisionError), session.begin_nested():
            session.connection().execute(text("CREATE TABLE a (b INTEGER)"))
            raise ZeroDivisionError
        assert session.connection() is first
        with pytest.raises(OperationalError, match="no such table"):
            session.connection().execute(text("SELECT b FROM a"))
    with database.read() as session:
        first = session.connection()
        session.rollback()
        assert session.connection() is not first
    database.close()
