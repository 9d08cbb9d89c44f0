"""Descriptions of columns that are made when they are read."""

from typing import Any

from minova.db.connections.lazy_columns import lazy_cursor


class Psycopg:
    """Stands in for the driver."""

    class Cursor:
        made = 0
        pgresult: Any = None

        @property
        def description(self) -> list[str] | None:
            type(self).made += 1
            return None if self.pgresult is None else ["id", "name"][: self.pgresult.nfields]


class Result:
    def __init__(self, nfields: int) -> None:
        self.nfields = nfields


def test_columns_are_made_when_they_are_read() -> None:
    cursor = lazy_cursor(Psycopg)()
    assert cursor.description is None
    cursor.pgresult = Result(0)
    assert cursor.description == []
    cursor.pgresult = Result(2)
    made = type(cursor).made
    assert cursor.description
    assert len(cursor.description) == 2
    assert type(cursor).made == made
    assert list(cursor.description) == ["id", "name"]
    assert cursor.description[1] == "name"
