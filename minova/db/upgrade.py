"""Creates or updates the tables. Separate from `minova.db.schema`, because most services never need Alembic."""

import time
from importlib.resources import files
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from minova import errors
from minova.db.engine import Database
from minova.db.schema import CHANGED, LAST_RELEASE, TABLE, checked_on, head, version
from minova.private_files import make_folder

# The key of PostgreSQL's advisory lock, which holds for one database. A number that no other program is likely to use.
_TURN = 0x6D696E6F7661
# Seconds; MariaDB wants a limit.
_LONGEST_TURN = 30 * 86400


def upgrade(url: str) -> str:
    """Creates or updates the tables. Returns the revision. Data are kept. Idempotent: an upgrade that was interrupted
    at any point is completed by the next one.

    Raises SchemaMismatch if the database is newer than this minova, ServiceUnavailable if it does not answer.
    """
    db = Database(url)
    try:
        _make_folder(url)
        order = list(CHANGED)

        def work(session: Session) -> None:
            connection = session.connection()
            _wait_for_turn(connection)
            revision = checked_on(connection)
            if revision is not None and int(revision) > int(head()):
                return
            if revision not in (None, head()):
                _lock(connection, order)
            _note(connection, revision)
            command.upgrade(_config(connection), "head")
            connection.execute(text(f"UPDATE {TABLE} SET oldest = :oldest"), {"oldest": LAST_RELEASE})

        # The upgrade gives way to running services that hold locks. MariaDB has committed a part of it then:
        # `minova.db.connections.repeatable_ddl` skips that.
        db.run(work)
        return version(db) or ""
    finally:
        db.close()


def _wait_for_turn(connection: Connection) -> None:
    """One upgrade at a time: a second one waits until the first has ended or its process has died, and then finds its
    work done. On SQLite every transaction that writes waits like that.

    On PostgreSQL the turn ends with the transaction. MariaDB ends a transaction at each change of a table, so there it
    ends with the connection: `Database.close`.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _TURN})
    elif connection.dialect.name in ("mysql", "mariadb"):
        # The name holds for the server, not for the database, and has at most 64 characters.
        lock = text("SELECT GET_LOCK(SHA1(CONCAT('minova upgrade ', DATABASE())), :seconds)")
        connection.execute(lock, {"seconds": _LONGEST_TURN})


def _note(connection: Connection, revision: str | None) -> None:
    """Records the revision in our own table, which continues the first release's table."""
    if not inspect(connection).has_table(TABLE):
        connection.execute(
            text(f"CREATE TABLE {TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY, oldest VARCHAR(32))")
        )
    # On an engine that commits each CREATE TABLE, the table may exist without its row.
    if revision is not None and connection.execute(text(f"SELECT version_num FROM {TABLE}")).scalar() is None:
        connection.execute(text(f"INSERT INTO {TABLE} (version_num) VALUES (:found)"), {"found": revision})


def _lock(connection: Connection, tables: list[str]) -> None:
    """On PostgreSQL, locks `tables` before the first change, so that a deadlock never ends a read of a running service.

    PostgreSQL looks for deadlocks in a session that has waited for `deadlock_timeout`, and ends that session. A read
    waits for the upgrade only. Therefore, after half of that time since its first lock request, the upgrade never waits
    while it holds a lock: it fails with LockNotAvailable and is repeated. Once it holds all locks it waits for nothing.

    The table that it could not lock becomes the first one in the next attempt. The upgrade then holds no other lock
    while it waits for that table, so services that use both can finish. It also waits longer for that table, because
    PostgreSQL cancels an autovacuum only for a session that has waited for `deadlock_timeout`.
    """
    if connection.dialect.name != "postgresql":
        return
    existing_tables = inspect(connection).get_table_names()
    setting = text("SELECT setting::float / 1000 FROM pg_settings WHERE name = 'deadlock_timeout'")
    deadlock_timeout = connection.execute(setting).scalar_one()
    until = time.monotonic() + deadlock_timeout / 2
    wait = 2 * deadlock_timeout
    for table in [each for each in tables if each in existing_tables]:
        milliseconds = int(wait * 1000)
        try:
            if milliseconds > 0:
                connection.execute(text(f"SET LOCAL lock_timeout = {milliseconds}"))
                connection.execute(text(f"LOCK TABLE {table}"))
            else:
                connection.execute(text(f"LOCK TABLE {table} NOWAIT"))
        except DBAPIError:
            tables.remove(table)
            tables.insert(0, table)
            raise
        wait = until - time.monotonic()


def _make_folder(url: str) -> None:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return
    folder = Path(parsed.database).parent
    try:
        make_folder(folder)
    except OSError as error:
        raise errors.ServiceUnavailable(f"The folder of the database, {folder}: {error.strerror}") from error


def _config(connection: Connection | None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("minova.migrations")).replace("%", "%%"))
    attributes: dict[str, Any] = config.attributes
    attributes["connection"] = connection
    return config
