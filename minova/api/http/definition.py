"""An API as data and a few decisions: its routes, validation, versions and errors.

`http.app` turns a definition into a WSGI application. Compute, Image, Network and Placement each have one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import falcon
import msgspec

from minova.api.http import faults
from minova.api.http.body import JsonBody
from minova.api.http.call import Call
from minova.api.http.faults import Content, Fault
from minova.api.http.microversions import HIGHEST, LOWEST, History, Version
from minova.api.policies.users import Identity

# A handler takes the collaborators of its API and the call.
Handler = Callable[[Any, Any], Any]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One route of an API.

    `query`, `body`: the types for the API's validation: structs, or JSON schemas by microversion.
    `rule`: the required policy; AUTHENTICATED: only credentials.
    `actions`: the policy by the action, which is the only key of the body. A route has either `rule` or `actions`,
    unless its path is public.
    `answer`: the content of the answer, {key: type} or a struct; a key that ends in ? is optional.
    `since`, `until`: the microversions that have the route; in others the status is `absent`.
    `accepts_json`: a client must accept JSON.
    `statuses`: later statuses, each with its first version.
    `action_history`: the versions of each action.
    `set_by_handler`: the statuses that the handler sets itself, each with its meaning; only for the descriptions of the
    API.
    """

    method: str
    path: str
    handler: Handler
    query: Any = None
    body: Any = None
    answer: Mapping[str, Any] | type[msgspec.Struct] = {}
    status: int = 200
    rule: str | None = None
    actions: Mapping[str, str] = {}
    since: Version = LOWEST
    until: Version = HIGHEST
    absent: int = 404
    accepts_json: bool = False
    statuses: tuple[tuple[Version, int], ...] = ()
    action_history: History | None = None
    set_by_handler: Mapping[int, str] = {}

    def status_at(self, version: Version) -> int:
        later = [status for since, status in self.statuses if since <= version]
        return later[-1] if later else self.status


class Validation(Protocol):
    """Reads query strings and bodies. Raises BadRequest with the place of the error."""

    def query(self, request: falcon.Request, route: Route, version: Version) -> Any: ...

    def body(self, request: falcon.Request, expected: Any, version: Version, limit: int) -> JsonBody: ...


class ApiDefinition(ABC):
    """The base of the definitions of APIs.

    `collaborators`: passed to every handler.
    `service_type`: in a catalog of Keystone.
    `public`: paths that need no credentials.
    `automatic_options`: falcon answers OPTIONS itself; else OPTIONS is a 405.
    `default_media_type`: the Content-Type of answers without a body.
    `refusal`: the text of a 403, with {} for the policy's name.
    """

    routes: Sequence[Route]
    validation: Validation
    service_type: str
    call_type: type[Call] = Call
    public: frozenset[str] = frozenset()
    automatic_options = True
    default_media_type: str | None = falcon.MEDIA_JSON
    refusal = "Policy doesn't allow {} to be performed."

    def __init__(self, collaborators: Any) -> None:
        self.collaborators = collaborators

    @property
    def max_body_size(self) -> int:
        """The most bytes of a body."""
        return int(self.collaborators.conf.api.max_request_body_size)

    @property
    def allowed_origins(self) -> Collection[str]:
        """The origins of foreign pages that may use the API; its own origin always may."""
        return ()

    @abstractmethod
    def negotiate(self, request: falcon.Request, response: falcon.Response) -> Version:
        """Returns the microversion of the request, and sets the headers that name it."""

    @abstractmethod
    def error_content(self, request: falcon.Request, fault: Fault) -> Content:
        """Returns the body of an error."""

    def classify(self, request: falcon.Request, error: Exception) -> Fault:
        return faults.classify(request, error)

    def project_of(self, request: falcon.Request, identity: Identity) -> str:
        """Returns the project that the request acts for."""
        return "admin" if identity.project_id is None else identity.project_id

    def check_request(self, request: falcon.Request) -> None:  # noqa: B027  - a hook
        """Runs as soon as the caller is known, before the route is."""

    def check_headers(self, request: falcon.Request, route: Route) -> None:  # noqa: B027  - a hook
        """Runs before policy, query and body are checked."""

    def invalid_body(self, path: dict[str, str]) -> None:  # noqa: B027  - a hook
        """Runs if a body is invalid; may raise an error that takes precedence."""

    def send(self, call: Call, answer: Any) -> None:
        """Writes the handler's return value into the response. None: the handler has written the response itself, or it
        is empty.
        """
        if answer is not None:
            call.response.data = msgspec.json.encode(answer)
            call.response.content_type = falcon.MEDIA_JSON
