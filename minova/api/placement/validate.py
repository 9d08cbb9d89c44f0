"""Bodies and query strings against their schemas. jsonschema, because clients know its sentences from Placement."""

import math
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

import falcon
import jsonschema
import msgspec
from jsonschema.exceptions import best_match

from minova.api.http.body import BodyTooLarge
from minova.api.placement.microversion import Version
from minova.api.placement.schemas import Schema, Versions, newest
from minova.placement.errors import BadRequest

_FORMATS = jsonschema.FormatChecker(formats=())
# By the identity of the schema, which is a constant: making one takes longer than a check.
_VALIDATORS: dict[int, Any] = {}
MAX_FIELDS = 1000
# Up to which every whole number is the same number as a float.
_EXACT = 2**53


def _number(text: str) -> int | float:
    """2.0 is an integer for JSON Schema, and so it is for those who work with a body that it let through."""
    number = float(text)
    if math.isinf(number):
        raise ValueError("number out of range")
    return int(number) if number.is_integer() and abs(number) < _EXACT else number


_DECODER = msgspec.json.Decoder(float_hook=_number)  # noqa: TID251  - plain values, of no type


def _is_uuid(value: object) -> bool:
    return not isinstance(value, str) or bool(UUID(value))


_FORMATS.checks("uuid", raises=ValueError)(_is_uuid)


def read_body(request: falcon.Request, versions: Versions, version: Version, limit: int) -> Any:
    """The document. `limit` in bytes. BadRequest says what is wrong with it, BodyTooLarge how much is allowed."""
    if (request.content_length or 0) > limit:
        raise BodyTooLarge(f"The request body is {request.content_length} bytes long; {limit} are allowed.")
    # The server bounds this stream, also when the body comes in chunks and no length is known.
    raw = request.stream.read(limit + 1)
    if len(raw) > limit:
        raise BodyTooLarge(f"The request body is longer than the {limit} bytes that are allowed.")
    try:
        document = _DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"Malformed JSON: {error}") from None
    check(document, newest(versions, version))
    return document


def read_query(text: str) -> list[tuple[str, str]]:
    """(key, value) in their order. BadRequest: it cannot be read."""
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except (ValueError, UnicodeDecodeError) as error:
        raise BadRequest(f"Invalid query string parameters: {error}") from None


def check_query(pairs: list[tuple[str, str]], versions: Versions, version: Version) -> None:
    """BadRequest names the key."""
    check(dict(pairs), newest(versions, version), "Invalid query string parameters")


def check(document: Any, schema: Schema, what: str = "JSON does not validate") -> None:
    """BadRequest: the most telling of its errors."""
    if id(schema) not in _VALIDATORS:
        _VALIDATORS[id(schema)] = jsonschema.Draft202012Validator(schema, format_checker=_FORMATS)
    try:
        error = best_match(_VALIDATORS[id(schema)].iter_errors(document))
        reason = "" if error is None else str(error)
    except RecursionError:
        reason = "it is nested too deeply"
    if reason:
        raise BadRequest(f"{what}: {reason}")
