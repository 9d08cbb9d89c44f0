"""Keyset paging: a page costs what it holds, wherever it begins."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, false, or_
from sqlalchemy.orm import InstrumentedAttribute

SortKey = InstrumentedAttribute[Any] | ColumnElement[Any]
# Columns and expressions that are never NULL, and whether each descends; the last tells rows apart.
Columns = Sequence[tuple[SortKey, bool]]


def columns_of(order: Iterable[tuple[str, bool]], keys: Mapping[str, SortKey], last: SortKey) -> Columns:
    """The columns of (key of `keys`, whether descending), and `last` after them in the same direction."""
    columns = [(keys[key], descending) for key, descending in order]
    if all(column is not last for column, _ in columns):
        columns.append((last, columns[-1][1] if columns else True))
    return columns


def ordered(query: Select[Any], columns: Columns) -> Select[Any]:
    return query.order_by(*(column.desc() if descending else column.asc() for column, descending in columns))


def after(values: Sequence[Any], columns: Columns) -> ColumnElement[bool]:
    """The condition of rows that come after the row with these values of the columns, in this order."""
    # Flat: each level of nesting costs the parser of SQLite a part of its stack.
    further = []
    equal: list[ColumnElement[bool]] = []
    for (column, descending), value in zip(columns, values, strict=True):
        further.append(and_(*equal, column < value if descending else column > value))
        equal.append(column == value)
    return or_(false(), *further)


def selected(columns: Columns) -> list[ColumnElement[Any]]:
    """What to select for the values of a row that `after` takes."""
    return [column.label(f"sort_{number}") for number, (column, _) in enumerate(columns)]
