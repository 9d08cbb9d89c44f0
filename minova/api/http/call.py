"""One request on its way to a handler, and what handlers work with."""

from collections.abc import Callable
from typing import Any

import falcon
import msgspec
from oslo_config import cfg

from minova import errors
from minova.api.image.store import ImageStore
from minova.context import RequestContext
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.db.engine import Database


class Api(msgspec.Struct, frozen=True, kw_only=True):
    """The collaborators of every handler: a read-only database, and who makes the changes."""

    conf: cfg.ConfigOpts
    db: Database
    conductor: ConductorApi
    compute: Callable[[str], ComputeApi]
    images: ImageStore


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """`path`, `query` and `body` as the route declares them: converted and checked. `raw` is the body's bytes."""

    ctx: RequestContext
    path: dict[str, str]
    query: Any = None
    body: Any = None
    raw: bytes = b""
    request: falcon.Request
    response: falcon.Response

    def url(self, path: str) -> str:
        """An absolute URL, for links: as the client has addressed us, also through a proxy."""
        return f"{self.request.forwarded_prefix.rstrip('/')}{path}"

    def require_admin(self, what: str) -> None:
        if not self.ctx.is_admin:
            raise errors.Forbidden(f"Policy does not allow {what} to be performed: it takes an administrator.")


Handler = Callable[[Api, Call], Any]
