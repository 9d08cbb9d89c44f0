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
from minova.db.schema import CHANGED, LAST_RELEASE, TABLE, checked, head, version
from minova.private_files import make_folder


def upgrade(url: str) -> str:
    """Creates or updates the tables. Returns the revision. Data are kept. Idempotent.

    Raises SchemaMismatch if the database is newer than this minova, ServiceUnavailable if it does not answer.
    """
    db = Database(url)
    try:
        _make_folder(url)
        revision = checked(db)
        if revision is not None and int(revision) > int(head()):
            return revision

        order = list(CHANGED)

        def work(session: Session) -> None:
            connection = session.connection()
            if revision not in (None, head()):
                _lock(connection, order)
            _note(connection, revision)
            command.upgrade(_config(connection), "head")
            connection.execute(text(f"UPDATE {TABLE} SET oldest = :oldest"), {"oldest": LAST_RELEASE})

        if db.engine.dialect.name in ("mysql", "mariadb"):
            # This database commits each change of a table at once, so the whole upgrade cannot be repeated.
            with db.write() as session:
                work(session)
        else:
            # The upgrade gives way to running services that hold locks.
            db.run(work)
        return version(db) or ""
    finally:
        db.close()


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
    known = inspect(connection).get_table_names()
    setting = text("SELECT setting::float / 1000 FROM pg_settings WHERE name = 'deadlock_timeout'")
    deadlock_timeout = connection.execute(setting).scalar_one()
    until = time.monotonic() + deadlock_timeout / 2
    wait = 2 * deadlock_timeout
    for table in [each for each in tables if each in known]:
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
