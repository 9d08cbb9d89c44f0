"""Which hosts are down now, read from heartbeats at most every other second."""

import threading
from collections.abc import Callable

from minova.db.api_queries import services
from minova.db.engine import Database

COMPUTE = "minova-compute"
# Seconds for which a result is valid.
FRESH = 2.0


class Liveness:
    """Safe for threads. It reads in transactions of its own. So do not call it, `forget` included, inside a transaction
    that holds what others wait for: it would wait for a connection that those others hold.
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
        """Call after the commit of a change to a service: the next use reads again."""
        with self._lock:
            self._until = 0.0

    def down_hosts(self) -> frozenset[str]:
        """Returns the hosts whose compute is silent, forced down, or reports that it cannot work."""
        self._refresh()
        return self._down

    def able_hosts(self) -> frozenset[str]:
        """Returns the hosts whose compute is known and not down."""
        self._refresh()
        return self._known - self._down

    def _refresh(self) -> None:
        with self._lock:
            if self._clock() < self._until:
                return
            with self._db.read() as session:
                computes = services.services(session, self._down_time, self._db)
            rows = [row for row in computes.rows if row.binary == COMPUTE]
            self._known = frozenset(row.host for row in rows)
            self._down = frozenset(row.host for row in rows if not computes.is_up(row))
            self._until = self._clock() + FRESH
