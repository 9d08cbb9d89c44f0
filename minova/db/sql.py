"""Pieces of SQL statements: `column IN (...)` for a list of values, long lists in chunks, and a field of a JSON text."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import (
    JSON,
    Boolean,
    ColumnElement,
    String,
    Text,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

# Values in one statement: fewer than SQLite's limit of variables.
CHUNK = 1000

T = TypeVar("T")


def chunked(values: Sequence[T], size: int = CHUNK) -> Iterable[Sequence[T]]:
    """Splits a long list: a database accepts only so many variables in one statement."""
    return (values[start : start + size] for start in range(0, len(values), size))


class _InList(FunctionElement[bool]):
    """Its clauses: the usual IN, the column, the array."""

    inherit_cache = True
    type = Boolean()

    def self_group(self, against: Any = None) -> Any:
        """Usable as a condition by itself. SQLAlchemy would compare a function with 1 on SQLite and MariaDB; a
        comparison uses no index.
        """
        return self


def in_list(column: Any, name: str = "some") -> ColumnElement[bool]:
    """The condition that the column's value is in the list that is bound to parameter `name`.

    PostgreSQL gets the list as one array. The text of the statement is then the same for every length, so the statement
    is prepared once, and planning it for an array costs a quarter of planning it for twenty constants. Other databases
    get one variable for each value.
    """
    usual = column.in_(bindparam(name, expanding=True))
    return _InList(usual, column, bindparam(name, type_=ARRAY(column.type)))


@compiles(_InList)
def _in(element: Any, compiler: Any, **kw: Any) -> str:
    usual, _, _ = element.clauses
    text: str = compiler.process(usual, **kw)
    return text


@compiles(_InList, "postgresql")
def _any(element: Any, compiler: Any, **kw: Any) -> str:
    _, column, values = element.clauses
    return f"{compiler.process(column, **kw)} = ANY({compiler.process(values, **kw)})"


_LIST = re.compile(r"= ANY\((%\(some\)s::[^\[]+\[\])\)")


def use_plans_for_one(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> Any:
    """On PostgreSQL, compares with the value if the list `some` has exactly one value. A hook of SQLAlchemy:
    before_cursor_execute.

    PostgreSQL estimates ten values for a list that it does not know. It therefore makes a new plan for each value,
    which takes longer than most statements. It makes the plan for one value only once.
    """
    if not many and isinstance(parameters, Mapping) and len(parameters.get("some", ())) == 1:
        statement = _for_one(statement)
    return statement, parameters


@lru_cache(maxsize=1024)
def _for_one(statement: str) -> str:
    return _LIST.sub(r"= (\1)[1]", statement)


class _JsonField(FunctionElement[str]):
    """Its clauses: the field of the text as it is, and of the text that is cast to JSON."""

    inherit_cache = True
    type = String()


def json_field(column: Any, *path: str | int) -> ColumnElement[str]:
    """The string at a path into the JSON object that a text column holds; NULL where there is none.

    A record of an older release may contain the character U+0000. PostgreSQL reads it as the replacement character.
    """
    # Two expressions: on SQLite a cast to JSON yields a number, and PostgreSQL has no path operator for text.
    as_it_is: Any = type_coerce(column, JSON)
    as_json: Any = cast(_without_nul(column), JSON)
    for key in path:
        as_it_is, as_json = as_it_is[key], as_json[key]
    return _JsonField(as_it_is.as_string(), as_json.as_string())


def _without_nul(column: Any) -> Any:
    """PostgreSQL cannot read any field of a JSON text that contains the escape of U+0000 anywhere."""
    text = type_coerce(column, Text)
    backslash: ColumnElement[str] = literal_column(r"'\\'")
    pair: ColumnElement[str] = literal_column("'\x01'")
    escape: ColumnElement[str] = literal_column(r"'\u0000'")
    # Two backslashes stand for one in a value, and the second one does not begin an escape. JSON has no bare control
    # characters.
    paired = func.replace(text, backslash, pair)
    replaced = func.replace(func.replace(paired, escape, literal_column(r"'\ufffd'")), pair, backslash)
    # Few texts contain that escape.
    return case((func.strpos(text, escape) > 0, replaced), else_=text)


@compiles(_JsonField)
def _path_into_text(element: Any, compiler: Any, **kw: Any) -> str:
    as_it_is, _ = element.clauses
    text: str = compiler.process(as_it_is, **kw)
    return text


@compiles(_JsonField, "postgresql")
def _path_into_json(element: Any, compiler: Any, **kw: Any) -> str:
    _, as_json = element.clauses
    return f"({compiler.process(as_json, **kw)})"
