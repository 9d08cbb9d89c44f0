"""Inserts rows that are missing. Each engine has its own syntax for that."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import Insert, insert
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session


def insert_missing(session: Session, model: Any, rows: Sequence[dict[str, Any]]) -> None:
    """Inserts `rows`, except those of which any unique key exists already. Waits for a concurrent insert of the same
    key.
    """
    if rows:
        session.connection().execute(_statement(session.get_bind().dialect.name, model), rows)


@cache
def _statement(dialect: str, model: Any) -> Insert:
    """Built once: every claim uses one."""
    statement: Insert = _STATEMENTS[dialect](model)
    return statement


def _ignore(model: Any) -> Insert:
    return insert(model).prefix_with("IGNORE")


_STATEMENTS: dict[str, Any] = {
    "sqlite": lambda model: sqlite.insert(model).on_conflict_do_nothing(),
    "postgresql": lambda model: postgresql.insert(model).on_conflict_do_nothing(),
    "mysql": _ignore,
    "mariadb": _ignore,
}
