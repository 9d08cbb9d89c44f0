"""Errors as OpenStack's clients expect them: one form for Compute, another for Images."""

import logging
from http import HTTPStatus
from typing import Any

import falcon
import msgspec
from sqlalchemy.exc import DataError, DBAPIError

from minova import errors
from minova.api.http.body import BodyTooLarge

LOG = logging.getLogger(__name__)

# Nova's names; every other status is a computeFault.
NAMES = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    413: "overLimit",
    415: "badMediaType",
    429: "overLimit",
    501: "notImplemented",
    503: "serviceUnavailable",
}
RETRY_AFTER = "2"  # seconds
# What is left of a refused request's body up to here is read, so that the client sees the answer and not a broken pipe.
DRAIN_BYTES = 1 << 20


def compute_fault(code: int, message: str) -> dict[str, Any]:
    return {NAMES.get(code, "computeFault"): {"code": code, "message": message}}


def image_fault(code: int, message: str) -> dict[str, Any]:
    title = _phrase(code)
    return {"code": f"{code} {title}", "title": title, "message": message}


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return "Error"


def answer_error(request: falcon.Request, response: falcon.Response, error: Exception, _params: Any) -> None:
    """Whatever a handler raises, as an answer. What nobody foresaw is logged whole and shown only by its request id."""
    code, message = meaning(request, error)
    headers = dict(error.headers or {}) if isinstance(error, falcon.HTTPError) else {}
    if code == 503:
        headers["Retry-After"] = RETRY_AFTER
    if isinstance(error, BodyTooLarge) or request.method in ("PUT", "POST"):
        drain(request, response)
    fault = image_fault if is_image(request) else compute_fault
    response.status = code
    response.stream = None
    response.data = msgspec.json.encode(fault(code, message))
    response.content_type = falcon.MEDIA_JSON
    for name, value in headers.items():
        response.set_header(name, value)


def is_image(request: falcon.Request) -> bool:
    return request.path == "/v2" or request.path.startswith(("/v2/", "/image"))


def meaning(request: falcon.Request, error: Exception) -> tuple[int, str]:
    """Status and message, logged where it is the service's own trouble."""
    if isinstance(error, errors.MinovaError) and error.code < 500:
        return error.code, str(error)
    if isinstance(error, errors.MinovaError) and error.code != 500:
        LOG.warning("%s %s: %s", request.method, request.path, error)
        return error.code, str(error)
    if isinstance(error, falcon.HTTPError):
        return error.status_code, _http_message(request, error)
    if isinstance(error, DataError | UnicodeEncodeError):
        return 400, "A value in the request has characters or a size that cannot be."
    if isinstance(error, DBAPIError):
        LOG.error("%s %s: the database does not answer: %s", request.method, request.path, error.orig)
        return 503, "The database does not answer. Please try again in a moment."
    LOG.error("%s %s failed", request.method, request.path, exc_info=error)
    request_id = getattr(request.context, "request_id", "")
    return 500, f"Unexpected error. Please tell your administrator the request ID {request_id}."


def _http_message(request: falcon.Request, error: falcon.HTTPError) -> str:
    if error.status_code == 404:
        return "The resource could not be found."
    if error.status_code == 405:
        return f"The method {request.method} is not allowed for this resource."
    return error.description or error.title or _phrase(error.status_code)


def drain(request: falcon.Request, response: falcon.Response) -> None:
    """Read the rest of a short body; of a long one hang up, or the server would read it all."""
    try:
        rest = request.stream.read(DRAIN_BYTES)
    except (OSError, ValueError):
        rest = b""
    chunked = request.content_length is None and request.get_header("Transfer-Encoding")
    if len(rest) == DRAIN_BYTES or chunked:
        response.set_header("Connection", "close")
