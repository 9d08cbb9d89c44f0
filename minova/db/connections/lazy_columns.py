"""Descriptions of columns that are made when they are read."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any


class LazyColumns(Sequence[Any]):
    """The description of a result of `length` columns. `columns`: makes it.

    SQLAlchemy looks after each statement whether there is a description, and reads it at a statement's first execution only. psycopg
    makes an object for each column each time.
    """

    def __init__(self, length: int, columns: Callable[[], Sequence[Any]]) -> None:
        self._length = length
        self._columns = columns

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        return self._columns()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._columns())


@cache
def lazy_cursor(psycopg: Any) -> Any:
    """Returns psycopg's class of cursors with lazy descriptions."""

    class LazyCursor(psycopg.Cursor):  # type: ignore[misc]
        @property
        def description(self) -> Sequence[Any] | None:
            column_count = 0 if self.pgresult is None else self.pgresult.nfields
            described = partial(getattr, super(), "description")
            return LazyColumns(column_count, described) if column_count else described()

    return LazyCursor
