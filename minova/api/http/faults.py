"""Maps exceptions to a status and a message. The definition of an API decides the format of an error's body."""

import logging
from http import HTTPStatus

import falcon
import msgspec
from sqlalchemy.exc import DataError, DBAPIError

from minova import errors

LOG = logging.getLogger(__name__)

RETRY_AFTER = "2"  # seconds


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """`code`: for programs, in APIs with such codes."""

    status: int
    message: str
    code: str = ""


class Content(msgspec.Struct, frozen=True, kw_only=True):
    media_type: str
    data: bytes


def classify(request: falcon.Request, error: Exception) -> Fault:
    """Returns the fault for an exception, and logs the service's own errors. An unexpected exception shows only its
    request id.
    """
    if isinstance(error, errors.MinovaError) and error.code < 500:
        return Fault(status=error.code, message=str(error))
    if isinstance(error, errors.MinovaError) and error.code != 500:
        LOG.log(errors.level_of(error), "%s %s: %s", request.method, request.path, error)
        return Fault(status=error.code, message=str(error))
    if isinstance(error, falcon.HTTPError):
        return Fault(status=error.status_code, message=_http_message(request, error))
    if isinstance(error, DataError | UnicodeEncodeError):
        return Fault(status=400, message="A value in the request has characters or a size that cannot be.")
    if isinstance(error, DBAPIError):
        LOG.error("%s %s: the database does not answer: %s", request.method, request.path, error.orig)
        return Fault(status=503, message="The database does not answer. Please try again in a moment.")
    LOG.error("%s %s failed", request.method, request.path, exc_info=error)
    request_id = getattr(request.context, "request_id", "")
    message = f"Unexpected error. Please tell your administrator the request ID {request_id}."
    return Fault(status=500, message=message)


def _http_message(request: falcon.Request, error: falcon.HTTPError) -> str:
    if error.status_code == 404:
        return "The resource could not be found."
    if error.status_code == 405:
        return f"The method {request.method} is not allowed for this resource."
    return error.description or error.title or phrase(error.status_code)


def phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
