"""The collaborators of Placement's handlers, their calls, and their answers."""

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
from oslo_config import cfg
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.api.http import call
from minova.db.engine import Database
from minova.db.recovery.cloud import is_safe_mode
from minova.objects.hosts.cloud import LOST
from minova.safe_mode import SafeMode, refusal

T = TypeVar("T")


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """The collaborators of every handler. The first change calls `writes`, which opens the connection for changes.

    `safe_mode`: of the process.
    """

    conf: cfg.ConfigOpts
    reads: Database
    writes: Callable[[], Database]
    safe_mode: SafeMode = msgspec.field(default_factory=SafeMode)

    def change(self, work: Callable[[Session], T]) -> T:
        """Runs `work` in one write transaction. If a concurrent request makes or removes the same row, runs `work` once
        more: it then sees that row, and answers accordingly. Raises ServiceUnavailable in safe mode.
        """
        self.safe_mode.require_off()

        def unless_safe(session: Session) -> T:
            if is_safe_mode(session):
                raise errors.ServiceUnavailable(refusal(LOST))
            return work(session)

        try:
            return self.writes().run(unless_safe)
        except IntegrityError:
            return self.writes().run(unless_safe)


class PlacementCall(call.Call, frozen=True, kw_only=True):
    """`query`: (key, value) pairs in their order."""

    def last_value(self, key: str) -> str | None:
        """Returns the last value of a key of the query."""
        return dict(self.query).get(key)

    def values(self, key: str) -> list[str]:
        return [value for name, value in self.query if name == key]

    def href(self, path: str) -> str:
        """Returns the path that the client must request, below the path at which Placement is mounted."""
        return f"{self.request.root_path}{path}"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a handler.

    `status`: None means the status of the route.
    `changed`: in seconds since the epoch, shown from microversion 1.15 on; None if the route does not show it.
    `location`: a path, as from `PlacementCall.href`.
    """

    body: Any = None
    status: int | None = None
    changed: float | None = None
    location: str | None = None


def latest(times: Iterable[float | None]) -> float:
    """Returns when the newest of the shown resources was changed: now, if one has no time of its own, or if there are
    none.
    """
    timestamps = [time.time() if at is None else at for at in times]
    return max(timestamps, default=time.time())
