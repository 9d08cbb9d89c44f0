"""One request on its way to a handler."""

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
    """What the caller may do. `refusal`: the text of a 403, with {} for the policy's name."""

    policy: Policy
    caller: Caller
    refusal: str

    def permits(self, rule: str, target: Target | None = None) -> bool:
        project_id = self.caller.project_id
        own = Target(project_id=project_id, user_id=self.caller.user_id, member_id=project_id)
        return self.policy.permits(rule, self.caller, target or own)


# The key of the WSGI environment with the project id that older clients of Compute put into the path, or None.
PROJECT_IN_PATH = "minova.project_id"
_VERSION = "/v2.1/"
# Images have none in their paths.
_WITHOUT_PROJECT = "/v2/"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """`path`: values of the path's variables. `query`, `body`: validated as the route declares them. `raw`: the body's bytes.

    `rule`: the policy of the route, or of the action that the body names.
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
        """An absolute URL for links, as the client addressed this server, also through a proxy, and with a project id where it has one."""
        project_id = self.request.env.get(PROJECT_IN_PATH)
        if project_id is not None and not path.startswith(_WITHOUT_PROJECT):
            version, separator, rest = path.rpartition(_VERSION)
            path = f"{version}{separator or '/'}{project_id}/{rest.lstrip('/')}"
        return f"{self.request.forwarded_prefix.rstrip('/')}{path}"

    @property
    def shows_all(self) -> bool:
        """Whether the client asks for minova's own fields, too."""
        return wants_all(self.request)

    def since(self, version: str) -> bool:
        """Whether the request has this microversion or a later one."""
        return self.version >= parsed(version)

    def has(self, history: History, name: str) -> bool:
        """Whether the microversion of the request has this field."""
        return history.has(name, self.version, everything=self.shows_all)

    def shown(self, history: History, view: V) -> V:
        """`view` as the microversion of the request has it."""
        return history.of_version(view, self.version, everything=self.shows_all)

    def shown_keys(self, history: History, document: Mapping[str, W]) -> dict[str, W]:
        """The same for an answer that is no struct."""
        return history.keys_of_version(document, self.version, everything=self.shows_all)

    def permits(self, rule: str, target: Target | None = None) -> bool:
        """What the policy says. `target` None: what the caller's own project has."""
        return self.access.permits(rule, target)

    def require(self, rule: str, target: Target | None = None) -> None:
        """Raises Forbidden if the policy does not permit it."""
        if not self.permits(rule, target):
            raise errors.Forbidden(self.access.refusal.format(rule))

    def require_for(self, target: Target) -> None:
        """Raises Forbidden if the policy of this route does not permit it for this target: the route was, for the own project."""
        if self.rule:
            self.require(self.rule, target)
