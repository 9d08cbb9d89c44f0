"""An upgrade of the tables beside running services made the database end a read of one of them: "deadlock detected".

The scheduler of that read raised OperationalError, and the servers of its request were in ERROR. PostgreSQL ends whichever session
has waited longest, so an upgrade that pauses between two of its locks, as on a busy machine, is not the one.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from alembic import command
from sqlalchemy import text

from minova.db import schema
from minova.db import upgrade as upgrades
from minova.db.engine import Database
from tests.waiting import wait_for

# Makes every CREATE INDEX of an upgrade take longer, between the locks of the first table and those of the next one.
SLOW_INDEX = """
CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.7); END';
CREATE EVENT TRIGGER slow ON ddl_command_end WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION slow();
"""
LOCKS_OF_OTHERS = """
SELECT relation::regclass::text, mode FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
WHERE datname = current_database() AND locktype = 'relation' AND relation >= 16384 AND pid <> pg_backend_pid()
"""
# Modes that a statement of a service holds without being in anyone's way.
OF_STATEMENTS = {"AccessShareLock", "RowShareLock", "RowExclusiveLock"}


@pytest.fixture
def url(fresh_postgresql_url: Callable[[], str]) -> str:
    """Of a database with the tables of the last release."""
    database_url = fresh_postgresql_url()
    upgrade(database_url, schema.LAST_RELEASE)
    return database_url


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


@pytest.fixture
def service(url: str, threads: ThreadPoolExecutor) -> Iterator[Any]:
    """A connection of a service of the last release. It ends before the threads, which may wait for its locks."""
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        yield connection


def upgrade(url: str, revision: str) -> None:
    db = Database(url)
    with db.write() as session:
        upgrades._note(session.connection(), None)
        command.upgrade(upgrades._config(session.connection()), revision)
    db.close()


def locks_of_others(url: str) -> set[tuple[str, str]]:
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        return set(connection.execute(LOCKS_OF_OTHERS).fetchall())


@pytest.mark.parametrize(("first", "second"), [("compute_nodes", "services"), ("services", "compute_nodes")])
def test_the_upgrade_gives_way_to_a_service_that_holds_what_it_needs(
    url: str, service: Any, threads: ThreadPoolExecutor, first: str, second: str
) -> None:
    service.execute(SLOW_INDEX)
    service.commit()
    service.execute(f"SELECT count(*) FROM {first}")  # held until the commit
    upgraded: Future[str] = threads.submit(upgrades.upgrade, url)
    wait_for(
        "the upgrade to ask for a lock", lambda: any(mode not in OF_STATEMENTS for _, mode in locks_of_others(url))
    )
    service.execute(f"SELECT count(*) FROM {second}")
    service.commit()
    assert upgraded.result(60) == schema.head()
    assert service.execute("SELECT count(*) FROM purged_instances").fetchone() == (0,)


def test_the_upgrade_waits_for_a_transaction_that_takes_seconds(
    url: str, service: Any, threads: ThreadPoolExecutor
) -> None:
    service.execute("SELECT count(*) FROM tasks")
    upgraded = threads.submit(upgrades.upgrade, url)
    time.sleep(2.0)  # longer than the upgrade waits for a lock before it gives way and tries again
    assert not upgraded.done()
    service.commit()
    assert upgraded.result(60) == schema.head()


def test_all_tables_that_the_revisions_change_are_locked_first(url: str) -> None:
    """Otherwise the upgrade would wait for a lock of a table while it holds those of others."""
    db = Database(url)
    with db.read() as session:
        there = set(session.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).scalars())
    with db.write() as session:
        command.upgrade(upgrades._config(session.connection()), "head")
        changed = {table for table, mode in locks_of_others(url) if mode not in OF_STATEMENTS and table in there}
    db.close()
    assert changed == set(schema.CHANGED)
