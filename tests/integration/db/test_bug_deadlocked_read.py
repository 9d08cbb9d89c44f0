"""A read that a database had ended for a deadlock was an unexpected error: servers whose hosts a scheduler had read were in ERROR.

Only statements that change tables, such as an upgrade, need locks that reads hold.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, text

from minova.db.engine import Database
from tests.waiting import wait_for

MADE = (
    "CREATE TABLE a (n INTEGER)",
    "CREATE TABLE b (n INTEGER)",
    "INSERT INTO a VALUES (1)",
    "INSERT INTO b VALUES (1)",
)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def with_tables(url: str) -> Database:
    db = Database(url)
    with db.write() as session:
        for statement in MADE:
            session.execute(text(statement))
    return db


def is_true(connection: Connection, query: str) -> Callable[[], bool]:
    return lambda: bool(connection.execute(text(query)).scalar())


def test_a_read_is_repeated_on_postgresql(fresh_postgresql_url: Callable[[], str], threads: ThreadPoolExecutor) -> None:
    db = with_tables(fresh_postgresql_url())
    url = db.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)

    def read() -> Any:
        with db.read() as session:
            return session.execute(text("SELECT count(*) FROM b JOIN a ON a.n = b.n")).scalar()

    with psycopg.connect(url) as change, db.engine.connect() as looking:
        change.execute("SET deadlock_timeout = '10min'")  # the read finds it
        change.execute("LOCK TABLE a")
        answer = threads.submit(read)
        waits = "SELECT count(*) FROM pg_locks WHERE relation = 'a'::regclass AND NOT granted"
        wait_for("the read to wait", is_true(looking, waits))
        change.execute("LOCK TABLE b")
        change.commit()
        assert answer.result(60) == 1
    db.close()


def test_a_read_is_repeated_on_mariadb(fresh_mariadb_url: Callable[[], str], threads: ThreadPoolExecutor) -> None:
    db = with_tables(fresh_mariadb_url())
    begun, go_on = threading.Event(), threading.Event()

    def read() -> tuple[Any, Any]:
        with db.read() as session:
            of_b = session.execute(text("SELECT count(*) FROM b")).scalar()  # locked until the end
            begun.set()
            assert go_on.wait(30)
            return of_b, session.execute(text("SELECT count(*) FROM a")).scalar()

    def change() -> None:
        with db.engine.connect() as connection:
            connection.execute(text("RENAME TABLE a TO c, b TO a, c TO b"))  # locks a, then b

    with db.engine.connect() as looking:
        answer = threads.submit(read)
        assert begun.wait(30)
        changed = threads.submit(change)
        waits = (
            "SELECT count(*) FROM information_schema.processlist"
            " WHERE state = 'Waiting for table metadata lock' AND db = database()"
        )
        wait_for("the change to wait", is_true(looking, waits))
        go_on.set()
        assert answer.result(60) == (1, 1)
        changed.result(60)
    db.close()
