"""Reads request bodies, with limits on length, depth, integers (databases hold 64 bits) and characters."""

import re
from typing import Any

import falcon
import msgspec

from minova import errors
from minova.api.http import nul
from minova.codecs import parse_json

MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)
# The most levels of a document. Messages of hosts and columns of MariaDB have 32, and put a part of it into a document of theirs.
MAX_DEPTH = 24
# Numbers with fewer digits always fit into 64 bits, and few bodies have this many digits in a row.
_MANY_DIGITS = re.compile(rb"\d{19}")


class BodyTooLarge(errors.MinovaError):
    code = 413


class UnsupportedMediaType(errors.MinovaError):
    code = 415


class JsonBody(msgspec.Struct, frozen=True, kw_only=True):
    """`raw`: the bytes as received. `document`: the validated content."""

    raw: bytes
    document: Any


def read_bytes(request: falcon.Request, limit: int) -> bytes:
    """Raises BodyTooLarge if the body is longer than `limit` bytes."""
    if (request.content_length or 0) > limit:
        raise BodyTooLarge(f"The request body is {request.content_length} bytes long; {limit} are allowed.")
    # The server limits this stream, even if the body is chunked and its length unknown.
    raw = request.stream.read(limit + 1)
    if len(raw) > limit:
        raise BodyTooLarge(f"The request body is longer than the {limit} bytes that are allowed.")
    return bytes(raw)


def check_json(raw: bytes) -> None:
    """`raw` must be valid JSON. Raises BadRequest as `check_values` does."""
    if _MANY_DIGITS.search(raw) or nul.ESCAPED in raw or raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
        check_values(parse_json(raw))


def check_values(document: Any) -> None:
    """Raises BadRequest for an integer beyond 64 bits, a text with a NUL character, or values that are nested too
    deeply, anywhere in a document of plain values.
    """
    open_values = [(document, 1)]
    while open_values:
        value, depth = open_values.pop()
        if depth > MAX_DEPTH:
            raise errors.BadRequest(f"Malformed request body: it is nested deeper than {MAX_DEPTH} levels.")
        if isinstance(value, dict):
            open_values += [(each, depth + 1) for each in value.values()]
        elif isinstance(value, list):
            open_values += [(each, depth + 1) for each in value]
        elif isinstance(value, int) and not MIN_INT64 <= value <= MAX_INT64:
            raise errors.BadRequest("Invalid input: an integer in the body does not fit into 64 bits.")
    # Only after the depth has been checked.
    nul.check_document(document)


def media_type(request: falcon.Request) -> str:
    """Returns the media type without its parameters, in lower case; empty if there is no Content-Type."""
    return (request.content_type or "").partition(";")[0].strip().lower()
