"""What every request passes before its handler and after it: names, versions, identity, headers."""

import re

import falcon

from minova import errors
from minova.api.http import microversions
from minova.api.http.auth import CHALLENGE, Authenticator, Identity, Unauthenticated
from minova.api.http.faults import is_image
from minova.context import RequestContext, new_request_id

# Asked without credentials, before a client can know how to log in.
PUBLIC = {"/", "/v2.1", "/v2", "/image", "/compute", "/versions"}
PROJECT_ID = re.compile(r"[\w.-]{1,255}")


class Gate:
    """`resources` are the first segments of the compute routes: what else stands there is a project id."""

    def __init__(self, authenticate: Authenticator, resources: frozenset[str]) -> None:
        self._authenticate = authenticate
        self._resources = resources

    def process_request(self, request: falcon.Request, response: falcon.Response) -> None:
        request_id = new_request_id()
        request.context.request_id = request_id
        response.set_header("x-openstack-request-id", request_id)
        request.path, project_id = canonical(request.path, self._resources)
        if not is_image(request):
            response.set_header("x-compute-request-id", request_id)
            microversions.negotiate(request, response)
        if request.path in PUBLIC:
            request.context.ctx = RequestContext(request_id=request_id)
            return
        try:
            identity = self._authenticate(request)
        except Unauthenticated:
            response.set_header("WWW-Authenticate", CHALLENGE)
            raise
        request.context.ctx = RequestContext(
            request_id=request_id,
            user_id=identity.user_id,
            project_id=project_of(identity, project_id),
            is_admin=identity.is_admin,
        )


def canonical(path: str, resources: frozenset[str]) -> tuple[str, str | None]:
    """The path as the route table has it, and the project id that older clients put into it."""
    if path.startswith(("/image/", "/compute/")):
        path = "/" + path.split("/", 2)[2]
    path = path.rstrip("/") or "/"
    parts = path.split("/")
    if len(parts) > 3 and parts[1] == "v2.1" and parts[2] not in resources and parts[3] in resources:
        return "/".join([*parts[:2], *parts[3:]]), parts[2]
    return path, None


def project_of(identity: Identity, in_path: str | None) -> str:
    """Of whom the request speaks. BadRequest: the path names another project than the credentials."""
    if in_path is None or in_path == identity.project_id:
        return identity.project_id or "admin"
    if not PROJECT_ID.fullmatch(in_path):
        raise errors.BadRequest("Malformed request URL: this is not a project id.")
    if identity.project_id is None:
        return in_path
    raise errors.BadRequest(
        f"Malformed request URL: its project_id '{in_path}' is not that of the credentials, '{identity.project_id}'."
    )
