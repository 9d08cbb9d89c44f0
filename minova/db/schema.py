"""The schema's revision: bringing the tables up to date, and refusing to work on tables that are too old.

Revisions are numbered 0001, 0002 and so on. Those of one release only expand what the release before it can work with, so
that services of both run on the same tables: upgrades roll. The database says from which revision on a minova can work with
it, so a service that is older than the tables knows whether it may start.
"""

import time
from importlib.resources import files
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from minova import errors
from minova.db.engine import Database
from minova.private_files import make_folder

COMMAND = "minova-manage db upgrade"
# The first release to be upgraded from reads `alembic_version`, and accepts one revision more than its own 0005 there: what
# has come since is noted in a table of our own, and `alembic_version` stays as that release left it.
TABLE, _FIRST_TABLE = "minova_schema", "alembic_version"
# The newest revision of the last release, whose services must be able to start on these tables.
LAST_RELEASE = "0005"
# The tables of that release that newer revisions change.
CHANGED = ("compute_nodes", "migrations", "services", "tasks", "workers")


def head() -> str:
    """The revision that this version of minova was made for."""
    revision = ScriptDirectory.from_config(_config(None)).get_current_head()
    assert revision is not None
    return revision


def version(db: Database) -> str | None:
    """The database's revision; nothing when it has no tables of minova. ServiceUnavailable: it does not answer."""
    with db.read() as session:
        return _found(session.connection())[0]


def _found(connection: Connection) -> tuple[str | None, str | None]:
    """The revision of the tables, and the oldest one whose minova can work with them; nothing where it is not noted."""
    tables = inspect(connection)
    if tables.has_table(TABLE):
        row = connection.execute(text(f"SELECT version_num, oldest FROM {TABLE}")).one_or_none()
        if row is not None:
            return row[0], row[1]
    if tables.has_table(_FIRST_TABLE):
        return connection.execute(text(f"SELECT version_num FROM {_FIRST_TABLE}")).scalar(), None
    return None, None


def _note(connection: Connection, revision: str | None) -> None:
    """Our own table, beginning where the first release's left off."""
    if not inspect(connection).has_table(TABLE):
        connection.execute(
            text(f"CREATE TABLE {TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY, oldest VARCHAR(32))")
        )
    # On an engine that commits each CREATE TABLE, the table may be there without its row.
    if revision is not None and connection.execute(text(f"SELECT version_num FROM {TABLE}")).scalar() is None:
        connection.execute(text(f"INSERT INTO {TABLE} (version_num) VALUES (:found)"), {"found": revision})


def _lock(connection: Connection, tables: list[str]) -> None:
    """On PostgreSQL, lock `tables` before the first change, so that a deadlock never ends a read of a running service.

    PostgreSQL looks for deadlocks in a session that has waited for `deadlock_timeout`, and ends that session. A read waits for
    the upgrade only. So half of that time after its first request the upgrade waits for nothing while it holds a lock: it ends
    with LockNotAvailable, and is repeated. Once it holds all of them there is nothing to wait for.

    The table that it did not get becomes the first: it has no other lock when it waits for that one, so services that use
    both can end. And it waits longer for it, because PostgreSQL cancels an autovacuum only for a session that has waited for
    `deadlock_timeout`.
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


def upgrade(url: str) -> str:
    """Make or update the tables; answers the revision. Data are kept, and doing it twice is harmless.

    SchemaMismatch: the database is ahead of this minova. ServiceUnavailable: it does not answer.
    """
    db = Database(url)
    try:
        _make_folder(url)
        revision = _checked(db)
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
            # Commits each change of a table at once, so that the whole cannot be repeated.
            with db.write() as session:
                work(session)
        else:
            # It gives way to services that run and hold locks.
            db.run(work)
        return version(db) or ""
    finally:
        db.close()


def require_schema(db: Database) -> None:
    """SchemaMismatch: no tables, or too old or too new ones; its text says what to do."""
    revision, wanted = _checked(db), head()
    if revision is None:
        raise errors.SchemaMismatch(f"The database has no tables of minova. Run: {COMMAND}")
    if int(revision) < int(wanted):
        raise errors.SchemaMismatch(f"The database has schema {revision}; {wanted} is needed. Run: {COMMAND}")


def _checked(db: Database) -> str | None:
    """The revision. Raises SchemaMismatch if it is not minova's, or ahead of what this minova can work with."""
    with db.read() as session:
        revision, oldest = _found(session.connection())
    if revision is None:
        return None
    if not revision.isdigit():
        raise errors.SchemaMismatch(
            f"The database has schema {revision!r}, which is not minova's: use another database."
        )
    if int(revision) > int(head()) and int(oldest or revision) > int(head()):
        raise errors.SchemaMismatch(
            f"The database has schema {revision}, and this minova knows {head()}: install a newer minova."
        )
    return revision


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
