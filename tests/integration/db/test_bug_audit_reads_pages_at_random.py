"""The audit of Placement on MariaDB: with a buffer pool that is smaller than the tables, it read a page for each row, and took minutes."""

from typing import Any

from sqlalchemy import text

from minova.db.engine import Database
from minova.placement.audit import gather
from tests.benchmarks.statements.__main__ import fill

SIZE = 3000


def plan(db: Database, query: Any) -> dict[str, str]:
    """Returns how each large table is read: ALL and index are from the beginning to the end."""
    statement = str(query.compile(db.engine, compile_kwargs={"literal_binds": True}))
    with db.engine.connect() as connection:
        rows = connection.execute(text(f"EXPLAIN {statement}")).mappings().all()
    return {row["table"]: row["type"] for row in rows if row["table"] in {"instances", "allocations"}}


def test_bug_audit_looked_for_each_row_by_itself(mariadb_tables: str) -> None:
    db = Database(mariadb_tables)
    try:
        fill(db, SIZE)
        with db.engine.connect() as connection:
            connection.execute(text("ANALYZE TABLE instances, allocations, consumers, resource_providers"))
        elsewhere, without = gather.instances_elsewhere(), gather.holders_without_instance()
        assert plan(db, elsewhere) == {"instances": "ALL", "allocations": "index"}
        assert plan(db, without)["instances"] == "ALL"
    finally:
        db.close()
