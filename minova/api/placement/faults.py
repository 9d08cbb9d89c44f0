"""Errors in the form of OpenStack Placement: a list of one, with a code for programs from microversion 1.23 on."""

import html
from http import HTTPStatus
from typing import Any

import falcon
import msgspec
from sqlalchemy.exc import IntegrityError

from minova.api.http.faults import RETRY_AFTER, drain, meaning
from minova.api.placement import microversion
from minova.placement.errors import CONCURRENT_UPDATE, UNDEFINED, Refused

CODES: microversion.Version = (1, 23)
EXPLANATIONS = {
    401: "This server could not verify that you are authorized to access the document you requested.",
    403: "Access was denied to this resource.",
    404: "The resource could not be found.",
    405: "The method specified is not allowed for this resource.",
    409: "There was a conflict when trying to complete your request.",
}


def answer_error(request: falcon.Request, response: falcon.Response, error: Exception, _params: Any) -> None:
    """Whatever a handler raises, as an answer. What nobody foresaw is logged whole and shown only by its request id."""
    status, detail, code = _refusal(request, error)
    headers = dict(error.headers or {}) if isinstance(error, falcon.HTTPError) else {}
    if status == 503:
        headers["Retry-After"] = RETRY_AFTER
    if request.method in ("PUT", "POST"):
        drain(request, response)
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


def _refusal(request: falcon.Request, error: Exception) -> tuple[int, str, str]:
    """Status, detail, and code for programs."""
    if isinstance(error, IntegrityError):
        # Two requests made the same thing, or one removed what the other was about to use; nothing of this one stands.
        return 409, "The data were changed by somebody else at the same time. Please retry.", CONCURRENT_UPDATE
    status, detail = meaning(request, error)
    return status, detail, error.placement_code if isinstance(error, Refused) else UNDEFINED
