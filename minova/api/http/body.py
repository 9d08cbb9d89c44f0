"""Request bodies, read with bounds: of their length, their depth, their integers, of which databases hold 64 bits, and their characters."""

import re
from typing import Any

import falcon
import msgspec

from minova import errors
from minova.api.http import nul
from minova.codecs import parse_json

MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)
# Levels of a document. What reads it later, in this or another service, is recursive.
MAX_DEPTH = 64
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


def check_json(raw: bytes) -> None:
    """`raw` is valid JSON. Raises BadRequest as `check_values` does."""
    if _MANY_DIGITS.search(raw) or nul.ESCAPED in raw or raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
        check_values(parse_json(raw))


def check_values(document: Any) -> None:
    """Raises BadRequest for an integer beyond 64 bits, a text with a NUL character and values nested too deeply, wherever
    they stand in plain values.
    """
    left = [(document, 1)]
    while left:
        value, depth = left.pop()
        if depth > MAX_DEPTH:
            raise errors.BadRequest(f"Malformed request body: it is nested deeper than {MAX_DEPTH} levels.")
        if isinstance(value, dict):
            left += [(each, depth + 1) for each in value.values()]
        elif isinstance(value, list):
            left += [(each, depth + 1) for each in value]
        elif isinstance(value, int) and not MIN_INT64 <= value <= MAX_INT64:
            raise errors.BadRequest("Invalid input: an integer in the body does not fit into 64 bits.")
    # After the check of the depth.
    nul.check_document(document)


def media_type(request: falcon.Request) -> str:
    """The media type without its parameters, in lower case; empty without a Content-Type."""
    return (request.content_type or "").partition(";")[0].strip().lower()
