"""One request on its way to a handler."""

from typing import Any

import falcon
import msgspec

from minova import errors
from minova.api.http.microversions import Version
from minova.api.policies.enforcer import Caller, Policy, Target
from minova.context import RequestContext


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller may do. `refusal`: the text of a 403, with {} for the policy's name."""

    policy: Policy
    caller: Caller
    refusal: str

    def permits(self, rule: str, target: Target | None = None) -> bool:
        own = Target(project_id=self.caller.project_id, user_id=self.caller.user_id)
        return self.policy.permits(rule, self.caller, target or own)


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
        """An absolute URL for links, as the client addressed this server, also through a proxy."""
        return f"{self.request.forwarded_prefix.rstrip('/')}{path}"

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
