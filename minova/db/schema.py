"""The revision of the schema, and the check that refuses tables that are too old. `minova.db.upgrade` updates them.

Revisions are numbered 0001, 0002 and so on. Revisions of a release only add what the previous release can work with, so
services of both releases run on the same tables: rolling upgrades. The database records the oldest revision whose
minova can work with it, so a service that is older than the tables knows whether it may start.
"""

from functools import cache
from importlib.resources import files
from typing import NamedTuple

from sqlalchemy import Connection, inspect, text

from minova import errors
from minova.db.engine import Database

COMMAND = "minova-manage db upgrade"
# The first release that can be upgraded reads `alembic_version` and accepts there one revision more than its own 0005.
# Later revisions are therefore recorded in our own table, and `alembic_version` stays as that release left it.
TABLE, _FIRST_TABLE = "minova_schema", "alembic_version"
# The newest revision of the last release, whose services must be able to start on these tables.
LAST_RELEASE = "0005"
# The tables of that release that newer revisions change.
CHANGED = (
    "aggregates",
    "compute_nodes",
    "consumers",
    "flavors",
    "images",
    "instance_action_events",
    "instance_faults",
    "instance_groups",
    "instances",
    "inventories",
    "migrations",
    "resource_classes",
    "resource_providers",
    "services",
    "tasks",
    "traits",
    "workers",
)


@cache
def head() -> str:
    """The revision that this version of minova needs: the number in the name of the newest revision file.

    Read without Alembic: importing Alembic takes as long as a tenth of the start of a service.
    """
    names = (each.name for each in (files("minova.migrations") / "versions").iterdir())
    return max(name[:4] for name in names if name[:4].isdigit())


def version(db: Database) -> str | None:
    """Returns the database's revision; None if it has no tables of minova. Raises ServiceUnavailable if it does not
    answer.
    """
    if db.missing_file is not None:
        return None
    with db.read() as session:
        return _read_revision(session.connection()).current


class _Revision(NamedTuple):
    """`current`: the tables' revision; None if it is not recorded. `oldest`: the oldest revision whose minova can work
    with these tables; None if it is not recorded.
    """

    current: str | None = None
    oldest: str | None = None


def _read_revision(connection: Connection) -> _Revision:
    tables = inspect(connection)
    if tables.has_table(TABLE):
        row = connection.execute(text(f"SELECT version_num, oldest FROM {TABLE}")).one_or_none()
        if row is not None:
            return _Revision(row[0], row[1])
    if tables.has_table(_FIRST_TABLE):
        return _Revision(connection.execute(text(f"SELECT version_num FROM {_FIRST_TABLE}")).scalar())
    return _Revision()


def require_schema(db: Database) -> None:
    """Raises SchemaMismatch if there are no tables, or they are too old or too new. Its text says what to do."""
    revision, head_revision = checked(db), head()
    if revision is None:
        raise no_tables(db)
    if int(revision) < int(head_revision):
        raise errors.SchemaMismatch(f"The database has schema {revision}; {head_revision} is needed. Run: {COMMAND}")


def no_tables(db: Database) -> errors.SchemaMismatch:
    file = db.missing_file
    what = "The database has no tables of minova" if file is None else f"There is no file {file} of the database"
    return errors.SchemaMismatch(f"{what}. Run: {COMMAND}")


def checked(db: Database) -> str | None:
    """Returns the revision. Raises SchemaMismatch if it is not one of minova's, or this minova cannot work with it
    because it is newer.
    """
    if db.missing_file is not None:
        return None
    with db.read() as session:
        return checked_on(session.connection())


def checked_on(connection: Connection) -> str | None:
    """The same, as one connection sees it."""
    revision, oldest = _read_revision(connection)
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
