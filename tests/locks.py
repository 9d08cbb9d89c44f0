"""Every statement that locks rows can be made to write them, as Galera needs: checked on every database of every test."""

from typing import Any

from sqlalchemy import Connection, Engine, event

from minova.db.galera import locked_table, locks_rows


def check() -> None:
    event.listen(Engine, "before_execute", _check)


def _check(_connection: Connection, statement: Any, *_: Any) -> None:
    if locks_rows(statement):
        locked_table(statement)
