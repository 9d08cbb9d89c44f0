"""Errors in the form of OpenStack Placement: a list of one, with a code for programs from microversion 1.23 on."""

import html
import logging
from http import HTTPStatus
from typing import Any

import falcon
import msgspec
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from minova import errors
from minova.api.body import BodyTooLarge
from minova.api.placement import microversion
from minova.placement.errors import CONCURRENT_UPDATE, UNDEFINED, Refused

LOG = logging.getLogger(__name__)

CODES: microversion.Version = (1, 23)
RETRY_AFTER = "2"  # seconds
# What is left of a refused request's body up to here is read, so that the client sees the answer and not a broken pipe.
DRAIN_BYTES = 1 << 20
EXPLANATIONS = {
    401: "This server could not verify that you are authorized to access the document you requested.",
    403: "Access was denied to this resource.",
    404: "The resource could not be found.",
    405: "The method specified is not allowed for this resource.",
    409: "There was a conflict when trying to complete your request.",
}


def answer_error(request: falcon.Request, response: falcon.Response, error: Exception, _params: Any) -> None:
    """Whatever a handler raises, as an answer. What nobody foresaw is logged whole and shown only by its request id."""
    status, detail, code = _meaning(request, error)
    headers = dict(error.headers or {}) if isinstance(error, falcon.HTTPError) else {}
    if status == 503:
        headers["Retry-After"] = RETRY_AFTER
    if request.method in ("PUT", "POST"):
        _drain(request, response, too_large=isinstance(error, BodyTooLarge))
    explanation = EXPLANATIONS.get(status, "")
    detail = f"{explanation}\n\n {detail}" if explanation and detail != explanation else detail
    response.status = status
    response.content_type, response.data = _body(request, status, detail, code)
    for name, value in headers.items():
        response.set_header(name, value)


def _body(request: falcon.Request, status: int, detail: str, code: str) -> tuple[str, bytes]:
    title = HTTPStatus(status).phrase
    if request.client_accepts_json:
        return falcon.MEDIA_JSON, msgspec.json.encode({"errors": [_entry(request, status, title, detail, code)]})
    if request.client_accepts(falcon.MEDIA_HTML):
        page = f"<html><head><title>{status} {title}</title></head><body>{html.escape(detail)}</body></html>"
        return falcon.MEDIA_HTML, page.encode()
    return falcon.MEDIA_TEXT, f"{status} {title}\n\n{detail}\n".encode()


def _entry(request: falcon.Request, status: int, title: str, detail: str, code: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"status": status, "title": title, "detail": detail}
    version = request.context.get("version")
    if version is not None and version >= CODES:
        entry["code"] = code
    entry["request_id"] = request.context.get("request_id", "")
    if version is None and status == 406:
        entry["max_version"] = microversion.text(microversion.MAX)
        entry["min_version"] = microversion.text(microversion.MIN)
    return entry


def _meaning(request: falcon.Request, error: Exception) -> tuple[int, str, str]:
    if isinstance(error, errors.MinovaError) and error.code != 500:
        if error.code > 500:
            LOG.warning("%s %s: %s", request.method, request.path, error)
        return error.code, str(error), error.placement_code if isinstance(error, Refused) else UNDEFINED
    if isinstance(error, falcon.HTTPError):
        return error.status_code, _http_detail(request, error), UNDEFINED
    if isinstance(error, IntegrityError):
        # Two requests made the same thing, or one removed what the other was about to use; nothing of this one stands.
        return 409, "The data were changed by somebody else at the same time. Please retry.", CONCURRENT_UPDATE
    if isinstance(error, DataError | UnicodeEncodeError):
        return 400, "A value in the request has characters or a size that cannot be.", UNDEFINED
    if isinstance(error, DBAPIError):
        LOG.error("%s %s: the database does not answer: %s", request.method, request.path, error.orig)
        return 503, "The database does not answer. Please try again in a moment.", UNDEFINED
    LOG.error("%s %s failed", request.method, request.path, exc_info=error)
    request_id = getattr(request.context, "request_id", "")
    return 500, f"Unexpected error. Please tell your administrator the request ID {request_id}.", UNDEFINED


def _http_detail(request: falcon.Request, error: falcon.HTTPError) -> str:
    if error.status_code == 404:
        return EXPLANATIONS[404]
    if error.status_code == 405:
        return f"The method {request.method} is not allowed for this resource."
    return error.description or error.title or HTTPStatus(error.status_code).phrase


def _drain(request: falcon.Request, response: falcon.Response, *, too_large: bool) -> None:
    """Read the rest of a short body; of a long one hang up, or the server would read it all."""
    try:
        rest = request.stream.read(DRAIN_BYTES)
    except (OSError, ValueError):
        rest = b""
    if too_large and (len(rest) == DRAIN_BYTES or request.content_length is None):
        response.set_header("Connection", "close")
