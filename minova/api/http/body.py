"""Request bodies, read with a bound, and the bounds of their integers: neither databases nor messages hold more than 64 bits."""

import re
from typing import Any

import falcon
import msgspec

from minova import errors
from minova.codecs import parse_json

MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)
# Fewer digits always fit, and few bodies have as many in a row.
_MANY_DIGITS = re.compile(rb"\d{19}")


class BodyTooLarge(errors.MinovaError):
    code = 413


class UnsupportedMediaType(errors.MinovaError):
    code = 415


class JsonBody(msgspec.Struct, frozen=True, kw_only=True):
    """`raw`: the bytes as they came. `document`: what they hold, validated."""

    raw: bytes
    document: Any


def read_bytes(request: falcon.Request, limit: int) -> bytes:
    """Raises BodyTooLarge above `limit` bytes."""
    if (request.content_length or 0) > limit:
        raise BodyTooLarge(f"The request body is {request.content_length} bytes long; {limit} are allowed.")
    # The server bounds this stream, also when the body comes in chunks and no length is known.
    raw = request.stream.read(limit + 1)
    if len(raw) > limit:
        raise BodyTooLarge(f"The request body is longer than the {limit} bytes that are allowed.")
    return bytes(raw)


def check_integers(raw: bytes) -> None:
    """`raw` is valid JSON. Raises BadRequest for an integer beyond 64 bits, wherever it stands: also in a value of any type."""
    if not _MANY_DIGITS.search(raw):
        return
    left = [parse_json(raw)]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif isinstance(value, int) and not MIN_INT64 <= value <= MAX_INT64:
            raise errors.BadRequest("Invalid input: an integer in the body does not fit into 64 bits.")


def media_type(request: falcon.Request) -> str:
    """The media type without its parameters, in lower case; empty without a Content-Type."""
    return (request.content_type or "").partition(";")[0].strip().lower()
