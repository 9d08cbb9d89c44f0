"""Refuses the character U+0000 in every part of a request: its path, its query string and its JSON body.

PostgreSQL stores no text with U+0000. A JSON text stores it as an escape, and then no query can read a field of that
text: one such row makes listings and the scheduler fail for all users.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote_plus

import falcon

from minova import errors

NUL = "\x00"
# The only form of U+0000 that JSON allows.
ESCAPED = b"\\u0000"
_MAX_SHOWN = 255
# A place in a document: the place of the container, and the key or index in it; None: the whole document.
_Place: TypeAlias = "tuple[_Place, str | int] | None"


def check_path(variables: Mapping[str, str]) -> None:
    """Raises BadRequest, with the name of the variable, if a value has U+0000."""
    for name, value in variables.items():
        if NUL in value:
            raise errors.BadRequest(f"Invalid input: {name} in the path has a NUL character.")


def check_query(request: falcon.Request) -> None:
    """Raises BadRequest, with the key of the parameter, if the query string has U+0000."""
    if "%00" not in request.query_string and NUL not in request.query_string:
        return
    for parameter in request.query_string.split("&"):
        if NUL in unquote_plus(parameter):
            key = unquote_plus(parameter.partition("=")[0])
            raise errors.BadRequest(f"Invalid input: query parameter {_printable(key)} has a NUL character.")


def check_document(document: Any) -> None:
    """Raises BadRequest, with the place (`$.server.metadata.key`), if a document of plain values has U+0000."""
    open_values: list[tuple[Any, _Place]] = [(document, None)]
    while open_values:
        value, place = open_values.pop()
        if isinstance(value, dict):
            for key, inner in value.items():
                open_values += [(key, (place, key)), (inner, (place, key))]
        elif isinstance(value, list):
            open_values += [(inner, (place, index)) for index, inner in enumerate(value)]
        elif isinstance(value, str) and NUL in value:
            raise errors.BadRequest(f"Invalid input: {_printable(_path(place))} has a NUL character.")


def _path(place: _Place) -> str:
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(["$", *reversed(steps)])


def _printable(text: str) -> str:
    return text[:_MAX_SHOWN].replace(NUL, r"\u0000")
