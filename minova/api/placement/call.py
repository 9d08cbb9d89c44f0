"""One request on its way to a handler, what handlers work with, and what they answer."""

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import falcon
import msgspec
from oslo_config import cfg
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova.api.placement.microversion import Version
from minova.context import RequestContext
from minova.db.engine import Database

T = TypeVar("T")

# From which on an answer says when what it shows was changed.
CACHE_HEADERS: Version = (1, 15)


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """The collaborators of every handler. `writes` opens the connection for changes on first use."""

    conf: cfg.ConfigOpts
    reads: Database
    writes: Callable[[], Database]

    def change(self, work: Callable[[Session], T]) -> T:
        """In one write transaction. When somebody else makes or removes the same thing in between, `work` is done again:
        it sees that now, and answers accordingly.
        """
        try:
            return self.writes().run(work)
        except IntegrityError:
            return self.writes().run(work)


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """`path`: the values of the path's variables. `query`: (key, value) in their order. `body`: checked."""

    ctx: RequestContext
    version: Version
    path: dict[str, str]
    query: list[tuple[str, str]]
    body: Any
    request: falcon.Request

    def asked(self, key: str) -> str | None:
        """The last value of a key of the query."""
        return dict(self.query).get(key)

    def all_asked(self, key: str) -> list[str]:
        return [value for name, value in self.query if name == key]

    def href(self, path: str) -> str:
        """The path as the client must ask for it, below the place where Placement is mounted."""
        return f"{self.request.root_path}{path}"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """`changed`: seconds since the epoch, shown from microversion 1.15 on; None where the route shows none.

    `location`: a path, as in `Call.href`.
    """

    body: Any = None
    status: int = 200
    changed: float | None = None
    location: str | None = None


Handler = Callable[[Placement, Call], Answer]


def latest(times: Iterable[float | None]) -> float:
    """Of things that an answer shows. What has no time of its own, or nothing at all, is of now."""
    found = [time.time() if at is None else at for at in times]
    return max(found, default=time.time())
