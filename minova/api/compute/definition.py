"""The Compute API: its routes, with Nova's versions, project ids and errors."""

import re

import falcon
import msgspec

from minova import errors
from minova.api.compute import versions
from minova.api.compute.routes import ROUTES
from minova.api.http.call import PROJECT_IN_PATH
from minova.api.http.definition import ApiDefinition
from minova.api.http.faults import Content, Fault
from minova.api.http.microversions import Version
from minova.api.http.structs import StructValidation
from minova.api.policies.users import Identity

# Nova's names of errors; every other status is a computeFault.
FAULT_NAMES = {
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
_PROJECT_ID = re.compile(r"[\w.-]{1,255}")


class ComputeDefinition(ApiDefinition):
    service_type = "compute"
    routes = ROUTES
    validation = StructValidation(ROUTES, strict_since=(2, 102))
    public = frozenset({"/", "/v2.0", "/v2.1", "/v3", "/compute", "/versions"})

    def negotiate(self, request: falcon.Request, response: falcon.Response) -> Version:
        response.set_header("x-compute-request-id", request.context.request_id)
        return versions.negotiate(request, response)

    def project_of(self, request: falcon.Request, identity: Identity) -> str:
        return project_of(identity, request.env.get(PROJECT_IN_PATH))

    def error_content(self, request: falcon.Request, fault: Fault) -> Content:
        name = FAULT_NAMES.get(fault.status, "computeFault")
        document = {name: {"code": fault.status, "message": fault.message}}
        return Content(media_type=falcon.MEDIA_JSON, data=msgspec.json.encode(document))


def project_of(identity: Identity, in_path: str | None) -> str:
    """Returns the project of the request. Raises BadRequest if the path names another project than the credentials."""
    if in_path is None or in_path == identity.project_id:
        return "admin" if identity.project_id is None else identity.project_id
    if not _PROJECT_ID.fullmatch(in_path):
        raise errors.BadRequest("Malformed request URL: this is not a project id.")
    if identity.project_id is None:
        return in_path
    raise errors.BadRequest(
        f"Malformed request URL: its project_id '{in_path}' is not that of the credentials, '{identity.project_id}'."
    )
