"""The liveness of the hosts of computes, read from heartbeats at most every other second.

    predicate   the compute                                          what follows
    down        is absent, or reports that its hypervisor is away    it gets no new servers
    absent      is silent, forced down, or has no service            its builds are tried elsewhere, its servers are deleted
                                                                     without it; a server action waits for it
    fenced      was forced down by an operator or a monitor          its server actions fail: the guests there do not run any
                                                                     more

A compute that reports that its hypervisor is away is down and not absent: it works, and reports itself how its work ends.

A decision that needs two of these facts takes both from one `hosts()`: between two calls the heartbeats may be read again.
"""

import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sqlalchemy.orm import Session

from minova.db.api_queries import services
from minova.db.engine import Database
from minova.db.hosts import services as service_rows

COMPUTE = "minova-compute"
# Seconds for which a result is valid.
FRESH = 2.0


class HostLiveness(NamedTuple):
    """The facts of one reading.

    `known`: the hosts whose compute has a service; any other host was removed.
    `releases`: by host, the number of the release with which its compute registered (objects/hosts/service.py).
    """

    known: frozenset[str] = frozenset()
    down: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    fenced: frozenset[str] = frozenset()
    releases: Mapping[str, int] = {}

    @property
    def present(self) -> frozenset[str]:
        """The hosts whose compute has a service and is not absent."""
        return self.known - self.absent


def is_fenced(session: Session, host: str | None, hosts: HostLiveness) -> bool:
    """Whether the host is fenced, or was removed. The reading may be older than a change of its service, such as another name: so it is
    no proof of that, and the session reads again.
    """
    if host in hosts.known - hosts.fenced:
        return False
    service = service_rows.find(session, str(host), COMPUTE)
    return service is None or service.forced_down


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
        self._hosts = HostLiveness()

    def forget(self) -> None:
        """Call after the commit of a change to a service: the next use reads again."""
        with self._lock:
            self._until = 0.0

    def down_hosts(self) -> frozenset[str]:
        """Returns the hosts that get no new servers."""
        return self.hosts().down

    def absent_hosts(self) -> frozenset[str]:
        """Returns the hosts whose compute is silent or forced down."""
        return self.hosts().absent

    def present_hosts(self) -> frozenset[str]:
        """Returns the hosts whose compute has a service and is not absent."""
        return self.hosts().present

    def hosts(self) -> HostLiveness:
        """Returns the facts of one reading, for decisions that compare them."""
        with self._lock:
            if self._clock() < self._until:
                return self._hosts
            with self._db.read() as session:
                computes = services.services(session, self._down_time, self._db)
            rows = [row for row in computes.rows if row.binary == COMPUTE]
            self._hosts = HostLiveness(
                known=frozenset(row.host for row in rows),
                down=frozenset(row.host for row in rows if not computes.is_up(row)),
                absent=frozenset(row.host for row in rows if computes.is_absent(row)),
                fenced=frozenset(row.host for row in rows if row.forced_down),
                releases={row.host: row.version for row in rows},
            )
            self._until = self._clock() + FRESH
            return self._hosts
