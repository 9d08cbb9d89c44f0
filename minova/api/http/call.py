"""One request on its way to a handler."""

from typing import Any

import falcon
import msgspec

from minova import errors
from minova.api.http.microversions import Version
from minova.context import RequestContext


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """`path`: values of the path's variables. `query`, `body`: validated as the route declares them. `raw`: the body's bytes."""

    ctx: RequestContext
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

    def require_admin(self, action: str) -> None:
        if not self.ctx.is_admin:
            raise errors.Forbidden(f"Policy does not allow {action} to be performed: it takes an administrator.")
