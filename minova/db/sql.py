"""Pieces of SQL statements: `column IN (...)` for a list of values, long lists in chunks, and a field of a JSON text."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from sqlalchemy import JSON, Boolean, ColumnElement, String, bindparam, cast, type_coerce
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

# Values in one statement: fewer than SQLite's limit of variables.
CHUNK = 1000

T = TypeVar("T")


def chunked(values: Sequence[T], size: int = CHUNK) -> Iterable[Sequence[T]]:
    """Split a long list: a database accepts only so many variables in one statement."""
    return (values[start : start + size] for start in range(0, len(values), size))


class _InList(FunctionElement[bool]):
    """Its clauses: the usual IN, the column, the array."""

    inherit_cache = True
    type = Boolean()

    def self_group(self, against: Any = None) -> Any:
        """Stands as a condition by itself. SQLAlchemy would compare a function with 1 on SQLite and MariaDB; a comparison uses no index."""
        return self


def in_list(column: Any, name: str = "some") -> ColumnElement[bool]:
    """The condition that the column's value is in the list that is bound to parameter `name`.

    PostgreSQL gets the list as one array: the text of the statement is the same for every length, so the statement is prepared
    once, and its plan for an array costs a quarter of the plan for twenty constants. Other databases get one variable for each value.
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


class _JsonField(FunctionElement[str]):
    """Its clauses: the field of the text as it is, and of the text that is cast to JSON."""

    inherit_cache = True
    type = String()


def json_field(column: Any, name: str) -> ColumnElement[str]:
    """The string in field `name` of the JSON object that a text column holds."""
    # Not one expression for all: SQLite's cast to JSON makes a number, and PostgreSQL has no path into text.
    return _JsonField(type_coerce(column, JSON)[name].as_string(), cast(column, JSON)[name].as_string())


@compiles(_JsonField)
def _path_into_text(element: Any, compiler: Any, **kw: Any) -> str:
    as_it_is, _ = element.clauses
    text: str = compiler.process(as_it_is, **kw)
    return text


@compiles(_JsonField, "postgresql")
def _path_into_json(element: Any, compiler: Any, **kw: Any) -> str:
    _, as_json = element.clauses
    return f"({compiler.process(as_json, **kw)})"
