"""Validation by JSON schemas, one for each range of microversions. Placement's clients know the error texts of
jsonschema.

jsonschema is imported with the first check: that takes a tenth of a second, and far longer with all libraries for
formats.
"""

import math
from functools import cache
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import falcon
import msgspec

from minova import errors
from minova.api.http.body import JsonBody, check_values, read_bytes
from minova.api.http.definition import Route
from minova.api.http.microversions import Version
from minova.uuids import is_uuid

Schema: TypeAlias = dict[str, Any]
# Pairs of a version and the schema that holds from that version on.
VersionedSchemas: TypeAlias = tuple[tuple[Version, Schema], ...]

MAX_FIELDS = 1000
# Up to this bound, every integer has an exact float.
_EXACT = 2**53
# Validators by the `id` of the schema, which is a constant: making a validator takes longer than a check.
_VALIDATORS: dict[int, Any] = {}


class InvalidDocument(errors.BadRequest):
    """The document is not JSON, or does not match the schema."""


class SchemaValidation:
    """A route's `query` and `body` are VersionedSchemas. A query is a list of (key, value) pairs in their order."""

    def query(self, request: falcon.Request, route: Route, version: Version) -> list[tuple[str, str]]:
        try:
            pairs = parse_qsl(request.query_string, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
        except ValueError as error:
            raise InvalidDocument(f"Invalid query string parameters: {error}") from None
        if route.query is not None:
            check(dict(pairs), newest(route.query, version), "Invalid query string parameters")
        return pairs

    def body(self, request: falcon.Request, expected: Any, version: Version, limit: int) -> JsonBody:
        raw = read_bytes(request, limit)
        try:
            document = _DECODER.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidDocument(f"Malformed JSON: {error}") from None
        check(document, newest(expected, version))
        check_values(document)
        return JsonBody(raw=raw, document=document)


def newest(schemas: VersionedSchemas, version: Version) -> Schema:
    """Returns the newest schema that is not above the version."""
    return max((entry for entry in schemas if entry[0] <= version), key=lambda entry: entry[0])[1]


def check(document: Any, schema: Schema, what: str = "JSON does not validate") -> None:
    """Raises InvalidDocument with the most specific error."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - see the module's first line
    from jsonschema.exceptions import best_match  # noqa: PLC0415 - the same

    if id(schema) not in _VALIDATORS:
        _VALIDATORS[id(schema)] = Draft202012Validator(schema, format_checker=_formats())
    try:
        error = best_match(_VALIDATORS[id(schema)].iter_errors(document))
        reason = "" if error is None else str(error)
    except RecursionError:
        reason = "it is nested too deeply"
    if reason:
        raise InvalidDocument(f"{what}: {reason}")


def _number(text: str) -> int | float:
    """Converts 2.0 to an integer: JSON Schema accepts it as one, and handlers of the document rely on that."""
    number = float(text)
    if math.isinf(number):
        raise ValueError("number out of range")
    return int(number) if number.is_integer() and abs(number) < _EXACT else number


_DECODER = msgspec.json.Decoder(float_hook=_number)  # noqa: TID251  - plain values, of no type


@cache
def _formats() -> Any:
    from jsonschema import FormatChecker  # noqa: PLC0415 - see the module's first line

    formats = FormatChecker(formats=())
    formats.checks("uuid")(lambda value: not isinstance(value, str) or is_uuid(value))
    return formats
