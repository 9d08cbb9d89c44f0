"""`column IN (...)` with the values of one parameter, spelt so that each engine plans it well.

PostgreSQL gets them as one array: the text stays the same however many there are, so that it is prepared once, and is planned for
an array instead of for so many constants, which was four times slower with twenty of them. The others get one variable for each.
"""

from typing import Any

from sqlalchemy import Boolean, ColumnElement, bindparam
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class _Among(FunctionElement[bool]):
    """Its clauses: IN as it is usually spelt, the column, the array."""

    inherit_cache = True
    type = Boolean()


def among(column: Any, name: str = "some") -> ColumnElement[bool]:
    """Whether the column's value is one of the list that parameter `name` brings."""
    usual = column.in_(bindparam(name, expanding=True))
    return _Among(usual, column, bindparam(name, type_=ARRAY(column.type)))


@compiles(_Among)
def _in(element: Any, compiler: Any, **kw: Any) -> str:
    usual, _, _ = element.clauses
    text: str = compiler.process(usual, **kw)
    return text


@compiles(_Among, "postgresql")
def _any(element: Any, compiler: Any, **kw: Any) -> str:
    _, column, values = element.clauses
    return f"{compiler.process(column, **kw)} = ANY({compiler.process(values, **kw)})"
