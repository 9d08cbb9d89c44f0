"""Keeps a HostTable up to date: reads the nodes that `host_changes` names, and the services' heartbeats."""

import logging
from collections.abc import Callable, Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.db.engine import Database
from minova.db.models import Heartbeat, Service
from minova.objects.hosts.liveness import judge
from minova.objects.hosts.service import CONDUCTOR
from minova.placement.changes import EVERY_NODE
from minova.scheduler.hosts.interning import Interner
from minova.scheduler.hosts.table import HostTable
from minova.scheduler.refresh.change_feed import ChangeFeed
from minova.scheduler.refresh.loader import read_hosts, read_signatures, signature

LOG = logging.getLogger(__name__)

COMPARE_INTERVAL = 60.0
# Up to this number of services all heartbeats are read; with more, only the new ones.
FEW = 1000
# Seconds by which a batch of heartbeats may be committed after another batch that was stamped later.
LATE = 5.0
# Heartbeats come at most every 10 s, and a service counts as silent after a minute: a check for each request is not
# needed.
LIVENESS_INTERVAL = 2.0


class HostSource:
    """Not thread-safe: the claim loop's queue serialises its users. `clock`: seconds, for periodic work; it must never
    run backwards.
    """

    def __init__(self, db: Database, *, service_down_time: float, clock: Callable[[], float]) -> None:
        self.table = HostTable(share_instances=True)
        self.liveness_checked = False  # whether the last refresh checked for silent services and for late changes
        self._db = db
        self._down_time = service_down_time
        self._clock = clock
        self._feed = ChangeFeed(clock)
        self._interner = Interner()
        self._loaded = False
        self._dirty: set[int] = set()
        self._last_seen: dict[int, float] = {}
        self._has_new_service = False
        self._conductors: set[int] = set()
        self._compared_at = float("-inf")
        self._liveness_checked_at = float("-inf")

    def refresh(self, *, liveness: bool = False) -> HostTable:
        """Brings the table up to date.

        `liveness`: also checks for silent services, and for changes that were committed long after they got their
        number, even if the last check was less than LIVENESS_INTERVAL ago. After an error the next refresh reads what
        this one did not.
        """
        now = self._clock()
        self._dirty |= self.table.restore()
        with self._db.read() as session:
            self.liveness_checked = liveness or now - self._liveness_checked_at >= LIVENESS_INTERVAL
            if not self._loaded or not self._read_change_feed(session):
                self._rebuild(session, now)
            if now - self._compared_at >= COMPARE_INTERVAL:
                self._compare(session, now)
            self._read(session)
            if self.liveness_checked or self._has_new_service:
                self._refresh_heartbeats(session, now)
        return self.table

    def reread(self) -> HostTable:
        """Re-reads only the rows that were invalidated or consumed. Does not read the feed."""
        self._dirty |= self.table.restore()
        if EVERY_NODE in self._dirty or not self._loaded:
            return self.refresh()
        with self._db.read() as session:
            self._read(session)
        self.liveness_checked = False
        return self.table

    def invalidate(self, node_ids: set[int]) -> None:
        """Makes the next refresh read these nodes, even if the feed does not name them."""
        self._dirty |= node_ids

    # -- the feed ---------------------------------------------------------------------------------------------------

    def _read_change_feed(self, session: Session) -> bool:
        """Marks the nodes that have changed. Returns False if the whole table must be read."""
        changed = self._feed.read(session, every_gap=self.liveness_checked)
        if changed is None:
            self._loaded = False
            return False
        self._dirty |= changed
        return EVERY_NODE not in self._dirty

    def _rebuild(self, session: Session, now: float) -> None:
        # The feed first: a change that is committed in between is then read twice, but never missed.
        self._feed.restart(session)
        self._interner = Interner()
        records = read_hosts(session, None, self._interner)
        removed = dict.fromkeys(self.table.row_of.keys() - records.keys())
        self.table.apply({**removed, **records})
        self._dirty = set()
        self._compared_at = now
        self._last_seen = {}
        self._has_new_service = True
        self._loaded = True

    def _read(self, session: Session) -> None:
        if not self._dirty:
            return
        records = read_hosts(session, self._dirty, self._interner)
        for node_id, record in records.items():
            if record is None and node_id in self.table.row_of:
                removed = self.table.host(self.table.row_of[node_id])
                LOG.info("Compute node %s of host %s is gone", removed.node, removed.host)
        self.table.apply(records)
        services = {record.service_id for record in records.values() if record is not None}
        # A new service whose heartbeat has not been read yet must not count as silent.
        self._has_new_service = self._has_new_service or not services <= self._last_seen.keys()
        self._dirty = set()

    def _compare(self, session: Session, now: float) -> None:
        """Once a minute, marks nodes that have changed without a row in the feed."""
        stored = read_signatures(session)
        own = {record.id: signature(record) for record in self.table.records}
        differing = {key for key in {*stored, *own} if stored.get(key) != own.get(key)} - self._dirty
        if differing:
            LOG.info("%d hosts had changed without a word in the feed", len(differing))
        self._dirty |= differing
        self._compared_at = now
        self._last_seen = {}

    # -- liveness ---------------------------------------------------------------------------------------------------

    def _refresh_heartbeats(self, session: Session, now: float) -> None:
        query = select(Heartbeat.service_id, Heartbeat.last_seen, Service.binary).join(Service)
        if len(self._last_seen) > FEW:
            query = query.where(Heartbeat.last_seen > max(self._last_seen.values()) - LATE)
        for service_id, seen_at, binary in session.execute(query):
            self._last_seen[service_id] = seen_at
            if binary == CONDUCTOR:
                self._conductors.add(service_id)
        self._has_new_service = False
        self._liveness_checked_at = now
        self.table.set_silent(self._silent(session, self._last_seen))

    def _silent(self, session: Session, last_seen: Mapping[int, float]) -> dict[int, float]:
        """Returns {service id: wall-clock time of its last heartbeat, 0 for none} of the silent services."""
        down = judge(last_seen, self._down_time, self._conductors).down
        behind = session.scalar(select(self._db.wall() - self._db.now())) or 0.0 if down else 0.0
        never = {record.service_id for record in self.table.records} - last_seen.keys()
        return {**{key: last_seen[key] + behind for key in down}, **dict.fromkeys(never, 0.0)}
