"""The Placement API: its routes, versions, JSON schemas, and errors as a list of one."""

import html
import time
from collections.abc import Collection
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import falcon
import msgspec
from sqlalchemy.exc import IntegrityError

from minova import errors
from minova.api.http import call as http
from minova.api.http import faults
from minova.api.http.body import UnsupportedMediaType, media_type
from minova.api.http.definition import ApiDefinition, Route
from minova.api.http.faults import Content, Fault
from minova.api.http.json_schema import SchemaValidation
from minova.api.http.microversions import Version, text
from minova.api.placement import versions
from minova.api.placement.call import Answer, PlacementCall
from minova.api.placement.routes import ROUTES
from minova.api.policies.users import Identity
from minova.placement.errors import CONCURRENT_UPDATE, UNDEFINED, Refused
from minova.placement.providers import queries

# From this version on, an answer has the time at which its resources were changed.
CACHE_HEADERS: Version = (1, 15)
# From this version on, an error has a code for programs.
ERROR_CODES: Version = (1, 23)
EXPLANATIONS = {
    401: "This server could not verify that you are authorized to access the document you requested.",
    403: "Access was denied to this resource.",
    404: "The resource could not be found.",
    405: "The method specified is not allowed for this resource.",
    409: "There was a conflict when trying to complete your request.",
}


class NotAcceptable(errors.MinovaError):
    code = 406


class PlacementDefinition(ApiDefinition):
    service_type = "placement"
    routes = ROUTES
    validation = SchemaValidation()
    call_type = PlacementCall
    public = frozenset({"/"})
    automatic_options = False
    default_media_type = None
    refusal = "Policy does not allow {} to be performed."

    @property
    def max_body_size(self) -> int:
        return int(self.collaborators.conf.placement.max_request_body_size)

    @property
    def allowed_origins(self) -> Collection[str]:
        origins: list[str] = self.collaborators.conf.cors.allowed_origin
        return origins

    def negotiate(self, request: falcon.Request, response: falcon.Response) -> Version:
        return versions.negotiate(request, response)

    def project_of(self, request: falcon.Request, identity: Identity) -> str:
        return identity.project_id or identity.user_id

    def check_request(self, request: falcon.Request) -> None:
        """Raises BadRequest if there is a body without a Content-Type."""
        if not request.content_type and request.content_length:
            raise errors.BadRequest("content-type header required when content-length > 0")

    def check_headers(self, request: falcon.Request, route: Route) -> None:
        if route.accepts_json and not request.client_accepts_json:
            raise NotAcceptable("Only application/json is provided")
        if route.body is not None and media_type(request) != falcon.MEDIA_JSON:
            kind = media_type(request) or None
            raise UnsupportedMediaType(f"The media type {kind} is not supported, use {falcon.MEDIA_JSON}")

    def invalid_body(self, path: dict[str, str]) -> None:
        """An unknown provider is 404, even with an invalid body."""
        if "uuid" in path:
            with self.collaborators.reads.read() as session:
                queries.find(session, path["uuid"])

    def send(self, call: http.Call, answer: Answer) -> None:
        super().send(call, answer.body)
        request, response = call.request, call.response
        if answer.status is not None:
            response.status = answer.status
        if answer.location is not None:
            response.set_header("Location", f"{request.forwarded_scheme}://{request.forwarded_host}{answer.location}")
        if answer.changed is not None and call.version >= CACHE_HEADERS:
            response.last_modified = datetime.fromtimestamp(min(answer.changed, time.time()), UTC)
            response.cache_control = ["no-cache"]

    def classify(self, request: falcon.Request, error: Exception) -> Fault:
        if isinstance(error, IntegrityError):
            # Two requests made the same row, or one removed a row that the other was about to use. Nothing of this
            # request is stored.
            message = "Another request changed the data at the same time. Repeat the request."
            return Fault(status=409, message=message, code=CONCURRENT_UPDATE)
        code = error.placement_code if isinstance(error, Refused) else UNDEFINED
        return msgspec.structs.replace(faults.classify(request, error), code=code)

    def error_content(self, request: falcon.Request, fault: Fault) -> Content:
        """Returns JSON, HTML or text, whichever the client accepts."""
        explanation, detail = EXPLANATIONS.get(fault.status, ""), fault.message
        if explanation and detail != explanation:
            detail = f"{explanation}\n\n {detail}"
        title = HTTPStatus(fault.status).phrase
        if request.client_accepts_json:
            document = {"errors": [_error_entry(request, fault, title, detail)]}
            return Content(media_type=falcon.MEDIA_JSON, data=msgspec.json.encode(document))
        if request.client_accepts(falcon.MEDIA_HTML):
            name = f"{fault.status} {title}"
            page = f"<html><head><title>{name}</title></head><body>{html.escape(detail)}</body></html>"
            return Content(media_type=falcon.MEDIA_HTML, data=page.encode())
        return Content(media_type=falcon.MEDIA_TEXT, data=f"{fault.status} {title}\n\n{detail}\n".encode())


def _error_entry(request: falcon.Request, fault: Fault, title: str, detail: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"status": fault.status, "title": title, "detail": detail}
    version = request.context.get("version")
    if version is not None and version >= ERROR_CODES:
        entry["code"] = fault.code
    entry["request_id"] = request.context.get("request_id", "")
    if version is None and fault.status == 406:
        entry["max_version"] = text(versions.MAX)
        entry["min_version"] = text(versions.MIN)
    return entry
