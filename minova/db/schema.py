"""The schema's revision: bringing the tables up to date, and refusing to work on tables that are too old.

Revisions are numbered 0001, 0002 and so on, so that a service can tell that a database is one ahead of it. That is
accepted, because each revision only expands what the one before it can work with: upgrades roll.
"""

from importlib.resources import files
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text
from sqlalchemy.engine import make_url

from minova import errors
from minova.db.engine import Database

COMMAND = "minova-manage db upgrade"
_TABLE = "alembic_version"


def head() -> str:
    """The revision that this version of minova was made for."""
    revision = ScriptDirectory.from_config(_config(None)).get_current_head()
    assert revision is not None
    return revision


def version(db: Database) -> str | None:
    """The database's revision; nothing when it has no tables of minova. ServiceUnavailable: it does not answer."""
    with db.read() as session:
        connection = session.connection()
        if not inspect(connection).has_table(_TABLE):
            return None
        return connection.execute(text(f"SELECT version_num FROM {_TABLE}")).scalar()


def upgrade(url: str) -> str:
    """Make or update the tables; answers the revision. Data are kept, and doing it twice is harmless.

    SchemaMismatch: the database is ahead of this minova. ServiceUnavailable: it does not answer.
    """
    db = Database(url)
    try:
        _make_folder(url)
        found = version(db)
        _refuse_unknown(found)
        if found is not None and int(found) > int(head()):
            return found
        with db.write() as session:
            command.upgrade(_config(session.connection()), "head")
        return version(db) or ""
    finally:
        db.close()


def require_schema(db: Database) -> None:
    """SchemaMismatch: no tables, or too old or too new ones; its text says what to do."""
    found, wanted = version(db), head()
    if found is None:
        raise errors.SchemaMismatch(f"The database has no tables of minova. Run: {COMMAND}")
    _refuse_unknown(found)
    if int(found) < int(wanted):
        raise errors.SchemaMismatch(f"The database has schema {found}; {wanted} is needed. Run: {COMMAND}")


def _refuse_unknown(found: str | None) -> None:
    if found is None:
        return
    if not found.isdigit():
        raise errors.SchemaMismatch(f"The database has schema {found!r}, which is not minova's: use another database.")
    if int(found) > int(head()) + 1:
        raise errors.SchemaMismatch(
            f"The database has schema {found}, and this minova knows {head()}: install a newer minova."
        )


def _make_folder(url: str) -> None:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return
    folder = Path(parsed.database).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.ServiceUnavailable(f"The folder of the database, {folder}: {error.strerror}") from error


def _config(connection: Connection | None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("minova.migrations")).replace("%", "%%"))
    attributes: dict[str, Any] = config.attributes
    attributes["connection"] = connection
    return config
