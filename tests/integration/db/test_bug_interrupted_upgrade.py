"""An upgrade of MariaDB's tables that was killed could not be repeated: "Duplicate column name", "Table already exists".

MariaDB commits each change of a table at once. PostgreSQL and SQLite undo an unfinished upgrade. `MINOVA_KILLS=all`, as
`tools/check nightly` has it, kills an upgrade after each single statement.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData, Table, inspect, select, text

from minova.db import schema
from minova.db import upgrade as upgrades
from minova.db.engine import Database
from tests.integration.db import killed_upgrades

ALL = os.environ.get("MINOVA_KILLS") == "all"
# Statements of a revision, on average: 194 of the revisions 0003 to 0046 on SQLite.
LEAST = 3
# Each database has its own.
OWN = {("clock", "value"), ("clock", "wall"), ("cloud", "uuid"), ("cloud", "history"), ("cloud", "mark_secret")}


@pytest.fixture(params=["sqlite", "fresh_postgresql_url", "fresh_mariadb_url"])
def fresh_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Gives the URL of a new, empty database at each call."""
    if request.param == "sqlite":
        numbers = iter(range(10))
        return lambda: f"sqlite:///{tmp_path}/{next(numbers)}.sqlite"
    make_url: Callable[[], str] = request.getfixturevalue(request.param)
    return make_url


def contents(url: str) -> dict[str, Any]:
    """Of each table: columns, keys, constraints, indexes and rows."""
    db = Database(url)
    with db.engine.connect() as connection:
        inspector, metadata = inspect(connection), MetaData()
        metadata.reflect(connection)

        def rows(table: Table) -> Any:
            return connection.execute(select(table)).mappings()

        tables = {
            name: {
                "columns": {
                    each["name"]: str({**each, "type": repr(each["type"])}) for each in inspector.get_columns(name)
                },
                "key": inspector.get_pk_constraint(name),
                "foreign keys": by_name(inspector.get_foreign_keys(name)),
                "unique": by_name(inspector.get_unique_constraints(name)),
                "indexes": by_name(inspector.get_indexes(name)),
                "rows": sorted(
                    ({each: row[each] for each in row if (name, each) not in OWN} for row in rows(table)), key=str
                ),
            }
            for name, table in metadata.tables.items()
        }
    db.close()
    return tables


def by_name(found: list[Any]) -> list[Any]:
    return sorted(found, key=lambda each: str(each["name"]))


def upgrade_with_kills(url: str, stride: int, most: int = 1000) -> int:
    """Returns how many upgrades were killed before one came to its end."""
    program = [sys.executable, "-m", killed_upgrades.__name__, url, str(stride), str(most)]
    result = subprocess.run(program, capture_output=True, text=True, timeout=900)
    assert result.returncode == 0, result.stderr[-3000:]
    return len(result.stdout.splitlines())


def test_an_upgrade_that_is_killed_after_any_statement_is_completed_by_the_next_one(
    fresh_url: Callable[[], str],
) -> None:
    url = fresh_url()
    # On MariaDB an upgrade begins where the last one has ended. Elsewhere each begins anew, so that more of them take long.
    keeps = url.startswith("mysql")
    stride = 1 if ALL else 8 if keeps else 40
    if not keeps:
        killed_upgrades.make_filled(url)
    assert upgrade_with_kills(url, stride) * stride >= LEAST * int(schema.head())
    assert killed_upgrades.revision(url) == schema.head()

    other = fresh_url()
    killed_upgrades.make_filled(other)
    upgrades.upgrade(other)
    expected = contents(other)
    assert [row["root_provider_id"] for row in expected["resource_providers"]["rows"]] == [1, 1]
    assert len(expected["deleted_images"]["rows"]) == len(expected["clock"]["rows"]) == 1
    assert contents(url) == expected


def test_so_is_one_that_begins_with_the_tables_of_the_last_release(fresh_mariadb_url: Callable[[], str]) -> None:
    """Its first statements take over the number of the revision."""
    url, other = fresh_mariadb_url(), fresh_mariadb_url()
    for each in (url, other):
        killed_upgrades.make_as_last_release(each)
    assert upgrade_with_kills(url, 1, 1000 if ALL else 5) >= 5
    upgrades.upgrade(other)
    assert contents(url) == contents(other)


def test_two_upgrades_at_the_same_time_make_one(fresh_url: Callable[[], str]) -> None:
    url = fresh_url()
    with ThreadPoolExecutor() as threads:
        done = [threads.submit(upgrades.upgrade, url) for _ in range(3)]
        assert [each.result(300) for each in done] == [schema.head()] * 3
    db = Database(url)
    with db.read() as session:
        assert session.execute(text(f"SELECT version_num, oldest FROM {schema.TABLE}")).all() == [
            (schema.head(), schema.LAST_RELEASE)
        ]
    db.close()
