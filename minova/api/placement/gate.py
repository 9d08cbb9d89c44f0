"""What every request to Placement passes before its handler: version, identity, and browsers' questions."""

from collections.abc import Sequence
from typing import Any

import falcon

from minova.api.http.auth import CHALLENGE, Authenticator, Unauthenticated
from minova.api.placement import microversion
from minova.api.placement.route import require_type
from minova.context import RequestContext, new_request_id


class Gate:
    """The version document is for everybody."""

    def __init__(self, authenticate: Authenticator) -> None:
        self._authenticate = authenticate

    def process_request(self, request: falcon.Request, response: falcon.Response) -> None:
        request_id = new_request_id()
        request.context.request_id = request_id
        response.set_header("x-openstack-request-id", request_id)
        request.context.version = None
        request.context.version = microversion.negotiate(request, response)
        if request.path == "/":
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
            project_id=identity.project_id or identity.user_id,
            is_admin=identity.is_admin,
        )
        require_type(request)


class Cors:
    """Browsers on pages of `origins` may ask. Without any, there is no such thing."""

    def __init__(self, origins: Sequence[str], headers: Sequence[str]) -> None:
        self._origins = frozenset(origins)
        self._headers = ",".join(headers)

    def process_request(self, request: falcon.Request, response: falcon.Response) -> None:
        if self._origins and request.method == "OPTIONS" and request.get_header("Origin"):
            response.set_header("Access-Control-Allow-Headers", self._headers)
            response.set_header("Access-Control-Allow-Methods", "GET,PUT,POST,DELETE")
            response.complete = True

    def process_response(self, request: falcon.Request, response: falcon.Response, resource: Any, ok: bool) -> None:
        origin = request.get_header("Origin")
        if origin in self._origins:
            response.set_header("Access-Control-Allow-Origin", origin)
            response.append_header("Vary", "Origin")
