"""The migrations on each engine make what the models say."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from minova import errors
from minova.db import schema
from minova.db.engine import Database
from minova.db.models import Base
from minova.db.upgrade import upgrade
from tests.integration.db.killed_upgrades import make


@pytest.fixture(params=["sqlite", "fresh_postgresql_url", "fresh_mariadb_url"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a new, empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/minova.sqlite"
    database_url: str = request.getfixturevalue(request.param)()
    return database_url


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    database = Database(url)
    yield database
    database.close()


def test_migrated_tables_are_those_of_the_models(url: str, db: Database) -> None:
    upgrade(url)
    with db.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "version_table": schema.TABLE})
        assert compare_metadata(context, Base.metadata) == []


def test_an_upgrade_twice_is_harmless(url: str, db: Database) -> None:
    assert schema.version(db) is None
    assert upgrade(url) == upgrade(url) == schema.head() == schema.version(db)


def test_hosts_go_on_reaching_the_networks_of_administrators(url: str, db: Database) -> None:
    make(url, "0035")
    kinds = (("local", "admin", 0), ("local", "alice", 1), ("local", "alice", 0), ("flat", "admin", 1))
    with db.write() as session:
        for number, (kind, project, shared) in enumerate(kinds):
            is_shared = "true" if shared else "false"
            session.execute(
                text(
                    "INSERT INTO networks (uuid, name, description, project_id, admin_state_up, shared, external, mtu, "
                    "network_type, revision_number, created_at, updated_at) VALUES "
                    f"('n{number}', '', '', '{project}', true, {is_shared}, false, 1500, '{kind}', 1, '2026-01-01', '2026-01-01')"
                )
            )
    upgrade(url)
    with db.read() as session:
        reachable_flags = session.execute(text("SELECT reachable FROM networks ORDER BY uuid")).scalars()
        assert [bool(reachable) for reachable in reachable_flags] == [True, True, False, False]


def test_no_tables_and_too_old_ones_are_refused_with_the_command_to_run(url: str, db: Database) -> None:
    with pytest.raises(
        errors.SchemaMismatch, match=r"(no tables of minova|no file .* of the database)\. Run: minova-manage db upgrade"
    ):
        schema.require_schema(db)
    upgrade(url)
    schema.require_schema(db)
    pretend(db, "0000")
    with pytest.raises(
        errors.SchemaMismatch, match=rf"has schema 0000; {schema.head()} is needed. Run: minova-manage db upgrade"
    ):
        schema.require_schema(db)


def test_newer_tables_are_accepted_if_this_release_can_work_with_them(url: str, db: Database) -> None:
    upgrade(url)
    ahead = int(schema.head())
    pretend(db, f"{ahead + 7:04}", oldest=schema.head())
    schema.require_schema(db)
    assert upgrade(url) == schema.version(db)
    pretend(db, f"{ahead + 7:04}", oldest=f"{ahead + 1:04}")
    for refuses in (lambda: schema.require_schema(db), lambda: upgrade(url)):
        with pytest.raises(errors.SchemaMismatch, match="install a newer minova"):
            refuses()


def test_bug_rolling_upgrade_the_last_release_can_start_on_these_tables(url: str, db: Database) -> None:
    """It reads alembic_version, and accepts there at most one revision more than its own."""
    upgrade(url)
    with db.write() as session:  # as that release made them
        session.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
        session.execute(text("INSERT INTO alembic_version VALUES (:r)"), {"r": schema.LAST_RELEASE})
        session.execute(text(f"UPDATE {schema.TABLE} SET oldest = NULL"))
    assert upgrade(url) == schema.head() == schema.version(db)
    with db.read() as session:
        assert session.execute(text("SELECT version_num FROM alembic_version")).scalar() == schema.LAST_RELEASE
        assert session.execute(text(f"SELECT oldest FROM {schema.TABLE}")).scalar() == schema.LAST_RELEASE


def test_tables_of_other_programs_are_left_alone(url: str, db: Database) -> None:
    upgrade(url)
    pretend(db, "ae1027a6acf")
    with pytest.raises(errors.SchemaMismatch, match="not minova's"):
        upgrade(url)


def test_names_that_differ_by_case_or_blanks_are_different(url: str, db: Database) -> None:
    upgrade(url)
    insert = text(
        "INSERT INTO flavors (flavorid, name, value, created_at) VALUES (:i, :n, '{}', '2026-01-01 00:00:00')"
    )
    with db.engine.begin() as connection:
        for number, name in enumerate(["web", "WEB"]):
            connection.execute(insert, {"i": str(number), "n": name})


def pretend(db: Database, revision: str, oldest: str | None = None) -> None:
    with db.engine.begin() as connection:
        connection.execute(
            text(f"UPDATE {schema.TABLE} SET version_num = :r, oldest = :o"), {"r": revision, "o": oldest}
        )
