"""Keyset paging: the cost of a page depends on its size, not on where it begins."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Select, and_, false, or_
from sqlalchemy.orm import InstrumentedAttribute

SortKey = InstrumentedAttribute[Any] | ColumnElement[Any]
# Columns and expressions that are never NULL, and whether each one descends. The last one is unique.
Columns = Sequence[tuple[SortKey, bool]]


def columns_of(order: Iterable[tuple[str, bool]], keys: Mapping[str, SortKey], last: SortKey) -> Columns:
    """Returns the columns for pairs of (key of `keys`, whether descending), followed by `last` in the direction of the
    last pair.
    """
    columns = [(keys[key], descending) for key, descending in order]
    if all(column is not last for column, _ in columns):
        columns.append((last, columns[-1][1] if columns else True))
    return columns


def ordered(query: Select[Any], columns: Columns) -> Select[Any]:
    return query.order_by(*(column.desc() if descending else column.asc() for column, descending in columns))


def after(values: Sequence[Any], columns: Columns) -> ColumnElement[bool]:
    """The condition of rows that follow, in this order, the row with these values of the columns."""
    # Not nested: each level of nesting takes stack space of SQLite's parser.
    further = []
    equal: list[ColumnElement[bool]] = []
    for (column, descending), value in zip(columns, values, strict=True):
        further.append(and_(*equal, column < value if descending else column > value))
        equal.append(column == value)
    return or_(false(), *further)


def ordered_as_selected(query: Select[Any], columns: Columns, rows: FromClause) -> Select[Any]:
    """As `ordered`, of rows that have what `selected` selects."""
    sort_keys = [(rows.c[f"sort_{number}"], descending) for number, (_, descending) in enumerate(columns)]
    return query.order_by(*(key.desc() if descending else key.asc() for key, descending in sort_keys))


def selected(columns: Columns) -> list[ColumnElement[Any]]:
    """Returns the columns to select for the values of a row that `after` needs."""
    return [column.label(f"sort_{number}") for number, (column, _) in enumerate(columns)]
