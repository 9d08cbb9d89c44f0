"""A request, as handlers get it."""

from collections.abc import Mapping
from typing import Any, TypeVar

import falcon
import msgspec

from minova import errors
from minova.api.http.microversions import History, Version, parsed, wants_all
from minova.api.policies.enforcer import Caller, Policy, Target
from minova.context import RequestContext

V = TypeVar("V", bound=msgspec.Struct)
W = TypeVar("W")


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The permissions of the caller. `refusal`: the text of a 403, with {} for the policy's name."""

    policy: Policy
    caller: Caller
    refusal: str

    def permits(self, rule: str, target: Target | None = None) -> bool:
        project_id = self.caller.project_id
        own = Target(project_id=project_id, user_id=self.caller.user_id, member_id=project_id)
        return self.policy.permits(rule, self.caller, target or own)


# The key of the WSGI environment that holds the project id that older clients of Compute put into the path, or None.
PROJECT_IN_PATH = "minova.project_id"
_VERSION = "/v2.1/"
# The paths of images have no project id.
_WITHOUT_PROJECT = "/v2/"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """`path`: the values of the path's variables.
    `query`, `body`: validated as the route declares them.
    `raw`: the bytes of the body.
    `rule`: the policy of the route, or of the action in the body.
    """

    ctx: RequestContext
    access: Access
    rule: str = ""
    version: Version
    path: dict[str, str]
    query: Any = None
    body: Any = None
    raw: bytes = b""
    request: falcon.Request
    response: falcon.Response

    def url(self, path: str) -> str:
        """Returns an absolute URL for links. It has the address that the client used, even through a proxy, and the
        project id if the client's path has one.
        """
        project_id = self.request.env.get(PROJECT_IN_PATH)
        if project_id is not None and not path.startswith(_WITHOUT_PROJECT):
            version, separator, rest = path.rpartition(_VERSION)
            path = f"{version}{separator or '/'}{project_id}/{rest.lstrip('/')}"
        return f"{self.request.forwarded_prefix.rstrip('/')}{path}"

    @property
    def shows_all(self) -> bool:
        """Whether the client requests minova's own fields, too."""
        return wants_all(self.request)

    def since(self, version: str) -> bool:
        """Whether the request has this microversion or a later one."""
        return self.version >= parsed(version)

    def has(self, history: History, name: str) -> bool:
        """Whether the microversion of the request has this field."""
        return history.has(name, self.version, everything=self.shows_all)

    def shown(self, history: History, view: V) -> V:
        """Returns `view` in the form of the request's microversion."""
        return history.of_version(view, self.version, everything=self.shows_all)

    def shown_keys(self, history: History, document: Mapping[str, W]) -> dict[str, W]:
        """The same as `shown`, for an answer that is not a struct."""
        return history.keys_of_version(document, self.version, everything=self.shows_all)

    def permits(self, rule: str, target: Target | None = None) -> bool:
        """Whether the policy permits the request. `target` None: resources of the caller's own project."""
        return self.access.permits(rule, target)

    def require(self, rule: str, target: Target | None = None) -> None:
        """Raises Forbidden if the policy does not permit the request."""
        if not self.permits(rule, target):
            raise errors.Forbidden(self.access.refusal.format(rule))

    def require_for(self, target: Target) -> None:
        """Raises Forbidden if the policy of this route does not permit the request for this target. The route itself
        was checked for the caller's own project.
        """
        if self.rule:
            self.require(self.rule, target)
