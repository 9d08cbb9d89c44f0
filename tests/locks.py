"""Every statement that locks rows can be made to write them, as Galera needs: checked in all tests, on every database."""

from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.dialects import mysql

from minova.db.connections.galera import LOCK_NUMBER, locks_rows, parameters_of_lock, raising_lock_numbers

_DIALECT = mysql.dialect()


# In the pool's information about a connection: the statement that is executed next, with its parameters.
_NEXT = "tests_lock"
# Texts that were checked already: a statement is executed thousands of times.
_checked: set[str] = set()


def check() -> None:
    event.listen(Engine, "before_execute", _remember)
    event.listen(Engine, "before_cursor_execute", _check)


def _remember(connection: Connection, statement: Any, _several: Any, parameters: Any, _options: Any) -> None:
    connection.info[_NEXT] = (statement, parameters) if locks_rows(statement) else None


def _check(connection: Connection, _cursor: Any, text: str, *_: Any) -> None:
    locking = connection.info.pop(_NEXT, None)
    if locking is None or text in _checked:
        return
    statement, parameters = locking
    written = raising_lock_numbers(statement).compile(dialect=_DIALECT, column_keys=[LOCK_NUMBER])
    # Each parameter has its place, and none is taken for the new value of a column.
    filled = parameters_of_lock(statement, parameters)
    assert filled.keys() <= written.params.keys(), (str(written), parameters)
    assert all(value is not None or name in filled for name, value in written.params.items()), (str(written), filled)
    _checked.add(text)
