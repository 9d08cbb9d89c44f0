"""Query strings: read into the route's struct; keys that it does not have are ignored, as Nova does."""

from typing import Any, TypeVar
from urllib.parse import parse_qsl

import falcon
import msgspec

from minova import errors
from minova.codecs import Decoder

Q = TypeVar("Q", bound=msgspec.Struct)

MAX_FIELDS = 100


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """`marker` is the id of the last item of the page before."""

    limit: int | None = None
    marker: str | None = None


def read_query(request: falcon.Request, decoder: Decoder[Q]) -> Q:
    """Of a key given more than once the last counts, unless its field is a tuple, which takes all."""
    try:
        pairs = parse_qsl(request.query_string, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except (ValueError, UnicodeDecodeError) as error:
        raise errors.BadRequest(f"Malformed query string: {error}") from None
    return to_struct(pairs, decoder)


def to_struct(pairs: list[tuple[str, str]], decoder: Decoder[Q]) -> Q:
    """BadRequest names the key whose value is wrong."""
    many = {field.encode_name for field in msgspec.structs.fields(decoder.kind) if field.default == ()}
    found: dict[str, Any] = {}
    for key, value in pairs:
        if "\x00" in value:
            raise errors.BadRequest(f"Invalid input for query parameter {key}: it holds a NUL character.")
        found[key] = (*found.get(key, ()), value) if key in many else value
    try:
        return decoder.from_builtins(found)
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid input for query parameters: {error}") from None


def page_size(limit: int | None, most: int) -> int:
    """How many items a page has. BadRequest: a negative limit. Above `most` it is cut to that, as Nova does."""
    if limit is None:
        return most
    if limit < 0:
        raise errors.BadRequest(f"limit must not be negative, and is {limit}.")
    return min(limit, most)
