"""Databases of the tests compile a statement once between them."""

from pathlib import Path
from unittest.mock import patch

from sqlalchemy import func, select
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler

from minova.db.engine import Database
from minova.db.models import Service
from tests.tables import create_all


def test_a_statement_is_compiled_once_for_all_databases(tmp_path: Path) -> None:
    answers = []
    with patch.object(
        SQLiteCompiler, "visit_select", autospec=True, side_effect=SQLiteCompiler.visit_select
    ) as compiled:
        for name in ("one", "two", "three"):
            url = f"sqlite:///{tmp_path}/{name}.sqlite"
            create_all(url)
            compiled.reset_mock()
            database = Database(url)
            with database.read() as session:
                # No other test asks so.
                query = select(func.count(Service.id).label("once")).where(Service.host == name)
                answers.append((session.scalar(query), compiled.call_count))
            database.close()
    assert answers == [(0, 1), (0, 0), (0, 0)]
