"""Every statement that locks rows can be made to write them, as Galera needs: checked in all tests, on every database."""

from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.dialects import mysql

from minova.db.connections.galera import LOCK_NUMBER, locks_rows, parameters_of_lock, raising_lock_numbers

_DIALECT = mysql.dialect()


def check() -> None:
    event.listen(Engine, "before_execute", _check)


def _check(_connection: Connection, statement: Any, _several: Any, parameters: Any, _options: Any) -> None:
    if locks_rows(statement):
        written = raising_lock_numbers(statement).compile(dialect=_DIALECT, column_keys=[LOCK_NUMBER])
        # Each parameter has its place, and none is taken for the new value of a column.
        filled = parameters_of_lock(statement, parameters)
        assert filled.keys() <= written.params.keys(), (str(written), parameters)
        assert all(value is not None or name in filled for name, value in written.params.items()), (
            str(written),
            filled,
        )
