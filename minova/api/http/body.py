"""JSON bodies: read with a bound, decoded into the route's struct, and refused with the place of what is wrong."""

from typing import Any

import falcon
import msgspec

from minova import errors
from minova.codecs import Decoder


class BodyTooLarge(errors.MinovaError):
    code = 413


class NotJson(errors.MinovaError):
    code = 415


def read_json(request: falcon.Request, decoder: Decoder[Any], limit: int) -> tuple[bytes, Any]:
    """The bytes and the struct. `limit` in bytes. Strings stand for numbers and booleans too, as Nova takes them."""
    media = (request.content_type or "application/json").partition(";")[0].strip().lower()
    if media != "application/json":
        raise NotJson(f"Content-Type {media} is not served here; send application/json.")
    if (request.content_length or 0) > limit:
        raise BodyTooLarge(f"The request body is {request.content_length} bytes long; {limit} are allowed.")
    # The server bounds this stream, also when the body comes in chunks and no length is known.
    raw = request.stream.read(limit + 1)
    if len(raw) > limit:
        raise BodyTooLarge(f"The request body is longer than the {limit} bytes that are allowed.")
    return raw, decode(raw, decoder)


def decode(raw: bytes, decoder: Decoder[Any]) -> Any:
    """BadRequest names the place in the document: `$.server.name`."""
    if not raw.strip():
        raise errors.BadRequest("The request needs a body in JSON, and has none.")
    try:
        return decoder.from_json(raw)
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid input: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.BadRequest(f"Malformed request body: {error}") from None
    except RecursionError:
        raise errors.BadRequest("Malformed request body: it is nested too deeply") from None
