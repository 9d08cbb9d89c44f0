"""What a body may have where its validation failed: the fields of an object, or the values of an enumeration."""

import re
from collections.abc import Iterator
from typing import Any

from msgspec import inspect

# msgspec's texts: "Object contains unknown field `x` - at `$.network`", "Invalid enum value 'x' - at `$.port.kind`".
_PLACE = re.compile(r"- at `\$(?P<path>[^`]*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[([^\]]*)\]")
_MAX_SHOWN = 100


def allowed_at(kind: Any, message: str) -> str:
    """Returns what is allowed at the place that the message names, to be appended to it. Empty for other messages."""
    is_field, is_value = message.startswith("Object contains unknown field"), message.startswith("Invalid enum value")
    if not (is_field or is_value):
        return ""
    place = _PLACE.search(message)
    type_infos = list(_at(inspect.type_info(kind), [] if place is None else _STEP.findall(place["path"])))
    names = sorted({name for each in type_infos for name in (_fields(each) if is_field else _values(each))})
    return f"; allowed are: {', '.join(names)}" if 0 < len(names) <= _MAX_SHOWN else ""


def _at(kind: inspect.Type, steps: list[tuple[str, str]]) -> Iterator[inspect.Type]:
    """Yields the types that a value at the end of the steps may have."""
    if isinstance(kind, inspect.Metadata):
        yield from _at(kind.type, steps)
    elif isinstance(kind, inspect.UnionType):
        for each in kind.types:
            yield from _at(each, steps)
    elif not steps:
        yield kind
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            if field.encode_name == steps[0][0]:
                yield from _at(field.type, steps[1:])
    elif isinstance(kind, inspect.VarTupleType | inspect.ListType):
        yield from _at(kind.item_type, steps[1:])
    elif isinstance(kind, inspect.DictType):
        yield from _at(kind.value_type, steps[1:])


def _fields(kind: inspect.Type) -> list[str]:
    return [field.encode_name for field in kind.fields] if isinstance(kind, inspect.StructType) else []


def _values(kind: inspect.Type) -> list[str]:
    if isinstance(kind, inspect.EnumType):
        return [str(member.value) for member in kind.cls]
    return [str(value) for value in kind.values] if isinstance(kind, inspect.LiteralType) else []
