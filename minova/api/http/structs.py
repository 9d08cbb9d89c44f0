"""Validation by msgspec structs. As in Nova, strings may stand for numbers and booleans."""

from collections.abc import Collection, Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

import falcon
import msgspec

from minova import errors
from minova.api.http.allowed import allowed_at
from minova.api.http.body import (
    MAX_INT64,
    MIN_INT64,
    JsonBody,
    UnsupportedMediaType,
    check_json,
    media_type,
    read_bytes,
)
from minova.api.http.definition import Route
from minova.api.http.microversions import HIGHEST, Version, body_check, history_of, wants_all
from minova.codecs import Decoder, parse_json

Q = TypeVar("Q", bound=msgspec.Struct)

MAX_FIELDS = 100
# The largest range of an integer field.
Int64 = Annotated[int, msgspec.Meta(ge=MIN_INT64, le=MAX_INT64)]

# Nova's words for booleans; with msgspec's own, 1 and 0 are numbers or texts.
Boolean = (
    Literal[
        "True",
        "TRUE",
        "true",
        "1",
        "ON",
        "On",
        "on",
        "YES",
        "Yes",
        "yes",
        "False",
        "FALSE",
        "false",
        "0",
        "OFF",
        "Off",
        "off",
        "NO",
        "No",
        "no",
    ]
    | bool
)


def is_true(value: bool | str | None) -> bool:
    """Converts a Boolean; None is false."""
    return value.lower() in ("true", "1", "on", "yes") if isinstance(value, str) else bool(value)


class PageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`marker`: the id of the last item of the page before."""

    limit: Int64 | None = None
    marker: str | None = None


class StructValidation:
    """A route's `query` is a struct; its `body` is any type that msgspec decodes."""

    def __init__(self, routes: Sequence[Route], *, strict_since: Version = HIGHEST) -> None:
        """Runs at import: it makes the decoders of all bodies and queries, before any thread uses one.

        `strict_since`: the version from which parameters that a route does not have are refused, unless the history of
        its query names another version.
        """
        self._strict_since = strict_since
        for route in routes:
            for kind in (route.query, route.body):
                if kind is not None:
                    _decoder(kind)
            if route.body is not None:
                body_check(route.body)

    def query(self, request: falcon.Request, route: Route, version: Version) -> Any:
        history = None if route.query is None else history_of(route.query)
        own = None if history is None else history.strict_since
        strict = version >= (self._strict_since if own is None else own)
        if route.query is None:
            if strict:
                _refuse_unknown(pairs_of(request), frozenset())
            return None
        decoder = _decoder(route.query)
        if history is None and not strict:
            return read_query(request, decoder)
        absent = frozenset[str]() if history is None else history.absent(version, wants_all(request))
        pairs = pairs_of(request)
        if strict:
            names = {field.encode_name for field in msgspec.structs.fields(decoder.kind)}
            _refuse_unknown(pairs, frozenset(names - absent))
        return to_struct([(key, value) for key, value in pairs if key not in absent], decoder)

    def body(self, request: falcon.Request, expected: Any, version: Version, limit: int) -> JsonBody:
        media = media_type(request)
        # Nova reads these as JSON, too. A page in a browser may send them to a foreign service without asking:
        # `require_own_origin` refuses the pages of others.
        if media not in {falcon.MEDIA_JSON, "text/plain", ""}:
            raise UnsupportedMediaType(f"Content-Type {media or '(none)'} is not served here; send application/json.")
        raw = read_bytes(request, limit)
        document = decode(raw, _decoder(expected))
        check = body_check(expected)
        if check is not None and not wants_all(request):
            check(parse_json(raw), version, "body")
        return JsonBody(raw=raw, document=document)


@cache
def _decoder(kind: Any) -> Decoder[Any]:
    return Decoder(kind, strict=False)


def decode(raw: bytes, decoder: Decoder[Any]) -> Any:
    """Raises BadRequest with the place in the document: `$.server.name`."""
    if not raw.strip():
        raise errors.BadRequest("The request needs a body in JSON, and has none.")
    try:
        document = decoder.from_json(raw)
        check_json(raw)
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid input: {error}{allowed_at(decoder.kind, str(error))}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.BadRequest(f"Malformed request body: {error}") from None
    except RecursionError:
        raise errors.BadRequest("Malformed request body: it is nested too deeply") from None
    return document


def read_query(request: falcon.Request, decoder: Decoder[Q]) -> Q:
    """Ignores keys that the struct does not have, as in Nova. The last value of a repeated key counts, unless its field
    is a tuple, which gets all values.
    """
    return to_struct(pairs_of(request), decoder)


def pairs_of(request: falcon.Request) -> list[tuple[str, str]]:
    try:
        return parse_qsl(request.query_string, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError as error:
        raise errors.BadRequest(f"Malformed query string: {error}") from None


def _refuse_unknown(pairs: list[tuple[str, str]], names: frozenset[str]) -> None:
    for key, _ in pairs:
        if key not in names:
            raise errors.BadRequest(
                f"Invalid input for query parameters. Additional properties are not allowed ('{key[:64]}' was unexpected)"
            )


def to_struct(pairs: list[tuple[str, str]], decoder: Decoder[Q]) -> Q:
    """Raises BadRequest with the key of the invalid value."""
    repeatable = {field.encode_name for field in msgspec.structs.fields(decoder.kind) if field.default == ()}
    values: dict[str, Any] = {}
    for key, value in pairs:
        values[key] = (*values.get(key, ()), value) if key in repeatable else value
    try:
        return decoder.from_builtins(values)
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid input for query parameters: {error}") from None


def check_sort_keys(keys: Sequence[str], sortable: Collection[str]) -> None:
    """Raises BadRequest for an unknown key, or for more keys than exist: each key makes the condition of a
    page longer.
    """
    if len(keys) > len(sortable):
        raise errors.BadRequest(f"There are {len(keys)} sort keys, and at most {len(sortable)} are allowed.")
    for key in keys:
        if key not in sortable:
            raise errors.BadRequest(f"'{key}' is not a sort key here; served are {', '.join(sorted(sortable))}.")


def page_size(limit: int | None, maximum: int) -> int:
    """Returns the number of items on a page: `limit`, but at most `maximum`, as in Nova. Raises BadRequest for a
    negative limit.
    """
    if limit is None:
        return maximum
    if limit < 0:
        raise errors.BadRequest(f"limit must not be negative, and is {limit}.")
    return min(limit, maximum)
