"""Keyset paging: a page costs what it holds, wherever it begins."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, false, or_
from sqlalchemy.orm import InstrumentedAttribute

# Columns that are never NULL, and whether each descends; the last tells rows apart.
Columns = Sequence[tuple[InstrumentedAttribute[Any], bool]]


def columns_of(
    order: Sequence[tuple[str, bool]], keys: dict[str, InstrumentedAttribute[Any]], last: InstrumentedAttribute[Any]
) -> Columns:
    """The columns of (key of `keys`, whether descending), and `last` after them in the same direction."""
    columns = [(keys[key], descending) for key, descending in order]
    if all(column is not last for column, _ in columns):
        columns.append((last, columns[-1][1] if columns else True))
    return columns


def ordered(query: Select[Any], columns: Columns) -> Select[Any]:
    return query.order_by(*(column.desc() if descending else column.asc() for column, descending in columns))


def after(row: Any, columns: Columns) -> ColumnElement[bool]:
    """The condition of rows that come after `row` in this order."""
    beyond: ColumnElement[bool] = false()
    for column, descending in reversed(columns):
        value = getattr(row, column.key)
        further = column < value if descending else column > value
        beyond = or_(further, and_(column == value, beyond))
    return beyond
