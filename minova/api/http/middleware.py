"""The middleware of every request: request id, microversion, identity; and CORS, if it is configured."""

from collections.abc import Sequence
from typing import Any

import falcon

from minova import errors
from minova.api.access.addresses import drop_forged, parse_networks
from minova.api.access.authenticator import Authenticator, Unauthenticated
from minova.api.access.origin import require_own_origin
from minova.api.access.throttle import TooManyFailures
from minova.api.access.wsgi_keys import ENTER, SERVICE_TYPE
from minova.api.http.call import Access
from minova.api.http.definition import ApiDefinition
from minova.api.policies.enforcer import Caller, Policy
from minova.context import RequestContext, new_request_id

# The URL limit of OpenStack's own servers (`url_length_limit` of oslo.service).
MAX_QUERY = 16384


class QueryTooLong(errors.MinovaError):
    code = 414


class Identify:
    """Drops forgeable headers about the client's address, and refuses pages of other origins. Puts `definition`,
    `request_id`, `version`, `ctx` and `access` into the request's context. `version` is None until it is negotiated.
    """

    def __init__(self, definition: ApiDefinition, authenticate: Authenticator, policy: Policy) -> None:
        self._definition = definition
        self._policy = policy
        self._authenticate = authenticate
        conf = definition.collaborators.conf
        self._trusted = parse_networks("[api] trusted_proxies", conf.api.trusted_proxies)

    def process_request(self, request: falcon.Request, response: falcon.Response) -> None:
        drop_forged(request.env, self._trusted)
        request.context.definition = self._definition
        request_id = new_request_id()
        request.context.request_id = request_id
        response.set_header("x-openstack-request-id", request_id)
        request.context.version = None
        if len(request.query_string) > MAX_QUERY:
            raise QueryTooLong(
                f"The query string is {len(request.query_string)} characters long; {MAX_QUERY} are allowed."
            )
        request.context.version = self._definition.negotiate(request, response)
        if request.path in self._definition.public:
            request.context.ctx = RequestContext(request_id=request_id)
            request.context.access = self._access(Caller(user_id="", project_id=""))
            return
        require_own_origin(request, self._definition.allowed_origins)
        request.env[SERVICE_TYPE] = self._definition.service_type
        try:
            identity = self._authenticate(request)
        except Unauthenticated as error:
            response.set_header("WWW-Authenticate", error.challenge)
            raise
        except TooManyFailures as error:
            response.set_header("Retry-After", str(error.retry_after))
            raise
        project_id = self._definition.project_of(request, identity)
        caller = Caller(user_id=identity.user_id, project_id=project_id, roles=identity.roles, scope=identity.scope)
        caller = self._policy.with_admin_flag(caller)
        request.context.access = self._access(caller)
        request.context.ctx = RequestContext(
            request_id=request_id, user_id=caller.user_id, project_id=project_id, is_admin=caller.is_admin
        )
        self._definition.check_request(request)
        if ENTER in request.env:
            request.env[ENTER](project_id)

    def _access(self, caller: Caller) -> Access:
        return Access(policy=self._policy, caller=caller, refusal=self._definition.refusal)


class Cors:
    """Lets browsers on pages of `origins` use the API. Does nothing if there are no origins."""

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
