"""Request bodies, read with a bound."""

from typing import Any

import falcon
import msgspec

from minova import errors


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


def media_type(request: falcon.Request) -> str:
    """The media type without its parameters, in lower case; empty without a Content-Type."""
    return (request.content_type or "").partition(";")[0].strip().lower()
