"""Which hosts cannot be counted on now, read from heartbeats at most every other second."""

import threading
from collections.abc import Callable

from sqlalchemy.orm import Session

from minova.db import services
from minova.db.engine import Database
from minova.objects.liveness import silent

COMPUTE = "minova-compute"
# Seconds that an answer stands.
FRESH = 2.0


class Liveness:
    """Safe for threads. It reads in transactions of its own, so it must not be asked, nor told to forget, inside of one that
    holds what others wait for: it would wait for a connection that those others hold.
    """

    def __init__(self, db: Database, *, down_time: float, clock: Callable[[], float]) -> None:
        self._db = db
        self._down_time = down_time
        self._clock = clock
        self._lock = threading.Lock()
        self._until = 0.0
        self._down: frozenset[str] = frozenset()
        self._known: frozenset[str] = frozenset()

    def forget(self) -> None:
        """A service was switched, and that is committed: look anew."""
        with self._lock:
            self._until = 0.0

    def down_hosts(self) -> frozenset[str]:
        """Hosts whose compute is silent, forced down, or says that it cannot work."""
        self._refresh()
        return self._down

    def able_hosts(self) -> frozenset[str]:
        """Hosts whose compute is known and not down."""
        self._refresh()
        return self._known - self._down

    def _refresh(self) -> None:
        with self._lock:
            if self._clock() < self._until:
                return
            with self._db.read() as session:
                self._known, self._down = self._read(session)
            self._until = self._clock() + FRESH

    def _read(self, session: Session) -> tuple[frozenset[str], frozenset[str]]:
        # Services first: one that registers between the two statements is heard of, and not known, rather than known and silent.
        computes = [row for row in services.all_of(session) if row.binary == COMPUTE]
        last_seen = services.last_seen(session)
        dead = silent(last_seen, self._down_time)
        down = frozenset(
            row.host
            for row in computes
            if row.forced_down or row.down_reason is not None or row.id in dead or row.id not in last_seen
        )
        return frozenset(row.host for row in computes), down
