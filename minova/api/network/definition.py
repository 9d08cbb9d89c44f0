"""The Network API: its routes, and errors in Neutron's form. It has no microversions."""

from typing import Any

import falcon
import msgspec

from minova import errors
from minova.api.http.definition import ApiDefinition, Route
from minova.api.http.faults import Content, Fault, classify
from minova.api.http.microversions import LOWEST, Version
from minova.api.http.structs import StructValidation, pairs_of
from minova.api.network.common import NetworkPageQuery
from minova.api.network.overview.not_served import refusal
from minova.api.network.routes import ROUTES

# Neutron's names of errors that have no class of their own here.
_TYPES = {
    400: "HTTPBadRequest",
    401: "Unauthorized",
    403: "PolicyNotAuthorized",
    404: "HTTPNotFound",
    405: "HTTPMethodNotAllowed",
    409: "HTTPConflict",
    412: "RevisionNumberConstraintFailed",
    503: "HTTPServiceUnavailable",
}
_GENERAL = (
    errors.BadRequest,
    errors.Forbidden,
    errors.NotFound,
    errors.Conflict,
    errors.PreconditionFailed,
    errors.ServiceUnavailable,
)


class NetworkValidation(StructValidation):
    """Listings refuse filters that they do not have, as in Neutron: the answer would hold more than the client asked for."""

    def query(self, request: falcon.Request, route: Route, version: Version) -> Any:
        if route.query is not None and issubclass(route.query, NetworkPageQuery):
            declared_fields = {field.encode_name for field in msgspec.structs.fields(route.query)}
            unknown = [key[:64] for key, _ in pairs_of(request) if key not in declared_fields]
            if unknown:
                raise errors.BadRequest(f"{unknown} is invalid attribute for filtering")
        return super().query(request, route, version)


class NetworkDefinition(ApiDefinition):
    service_type = "network"
    routes = ROUTES
    validation = NetworkValidation(ROUTES)
    public = frozenset({"/", "/v2.0"})
    refusal = "rule:{} is disallowed by policy"

    def negotiate(self, request: falcon.Request, response: falcon.Response) -> Version:
        return LOWEST

    def classify(self, request: falcon.Request, error: Exception) -> Fault:
        fault = classify(request, error)
        if isinstance(error, falcon.HTTPNotFound | falcon.HTTPMethodNotAllowed) and (text := refusal(request.path)):
            return msgspec.structs.replace(fault, status=404, message=text, code="")
        own = isinstance(error, errors.MinovaError) and type(error) not in _GENERAL
        return msgspec.structs.replace(fault, code=type(error).__name__ if own else "")

    def error_content(self, request: falcon.Request, fault: Fault) -> Content:
        kind = fault.code or _TYPES.get(fault.status, "HTTPInternalServerError")
        document = {"NeutronError": {"type": kind, "message": fault.message, "detail": ""}}
        return Content(media_type=falcon.MEDIA_JSON, data=msgspec.json.encode(document))
