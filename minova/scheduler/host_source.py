"""Keeps a HostTable as the database is: reads what `host_changes` names, and who is silent."""

import logging
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.db.engine import Database
from minova.db.models import Heartbeat, HostChange
from minova.objects.liveness import silent
from minova.placement.changes import EVERY_NODE
from minova.scheduler.host_rows import read_hosts, read_signatures, signature
from minova.scheduler.host_table import HostTable
from minova.scheduler.shared_values import Shared

LOG = logging.getLogger(__name__)

# Seconds. A number of the feed that has not appeared by then belongs to a transaction that was rolled back.
GAP_LIFETIME = 120.0
# Numbers looked back over for gaps when the table is read whole.
LOOK_BACK = 10_000
COMPARE_INTERVAL = 60.0
# So many heartbeats are read whole; of more, those that are new.
FEW = 1000
# Seconds that a flush of heartbeats may be committed after another that was stamped later.
LATE = 5.0
# Beats come every 10 s or less often, and a minute of silence counts: no need to look at each request.
LIVENESS_INTERVAL = 2.0


class HostSource:
    """Not safe for threads: whoever decides holds it alone. `clock`: seconds, for what is to be done now and then."""

    def __init__(self, db: Database, *, service_down_time: float, clock: Callable[[], float]) -> None:
        self.table = HostTable(together=True)
        self.rows_read = 0
        self.heard = False  # whether the last refresh looked for silent services
        self._db = db
        self._down_time = service_down_time
        self._clock = clock
        self._last = 0
        self._shared = Shared()
        self._loaded = False
        self._gaps: dict[int, float] = {}
        self._dirty: set[int] = set()
        self._last_seen: dict[int, float] = {}
        self._stranger = False
        self._compared_at = 0.0
        self._heard_at = 0.0

    def refresh(self, *, liveness: bool = False) -> HostTable:
        """Bring the table up to date; `liveness`: look for silent services although that was done just now.

        After an error nothing is lost: what was to be read is read the next time.
        """
        now = self._clock()
        self._dirty |= self.table.restore()
        with self._db.read() as session:
            if not self._loaded or not self._follow(session, now):
                self._rebuild(session, now)
            if now - self._compared_at >= COMPARE_INTERVAL:
                self._compare(session, now)
            self._read(session)
            self.heard = liveness or now - self._heard_at >= LIVENESS_INTERVAL or self._stranger
            if self.heard:
                self._listen(session, now)
        return self.table

    def reread(self) -> HostTable:
        """Bring only those rows up to date that were suspected or consumed, and leave the feed for `refresh`."""
        self._dirty |= self.table.restore()
        if EVERY_NODE in self._dirty or not self._loaded:
            return self.refresh()
        with self._db.read() as session:
            self._read(session)
        self.heard = False
        return self.table

    def suspect(self, node_ids: set[int]) -> None:
        """Read these afresh next time, whatever the feed says."""
        self._dirty |= node_ids

    # -- the feed ---------------------------------------------------------------------------------------------------

    def _follow(self, session: Session, now: float) -> bool:
        """Note which nodes have changed. False: the whole table must be read."""
        self._gaps = {seq: since for seq, since in self._gaps.items() if now - since < GAP_LIFETIME}
        # The last one seen is asked for again: as long as it is there, nothing after it has been trimmed.
        wanted = HostChange.seq >= self._last
        if self._gaps:
            wanted = wanted | HostChange.seq.in_(sorted(self._gaps))
        query = select(HostChange.seq, HostChange.node_id).where(wanted).order_by(HostChange.seq)
        rows = session.execute(query).all()
        if not self._unbroken({seq for seq, _ in rows}):
            LOG.info("The feed of host changes was trimmed past %d; reading every host", self._last)
            self._loaded = False
            return False
        self._dirty.update(node_id for seq, node_id in rows if seq > self._last or seq in self._gaps)
        self._note([seq for seq, _ in rows], now)
        return EVERY_NODE not in self._dirty

    def _unbroken(self, seqs: set[int]) -> bool:
        return self._last in seqs if self._last else not seqs or min(seqs) == 1

    def _note(self, seqs: Sequence[int], now: float) -> None:
        """Numbers skipped on the way to the newest may yet appear: their order is not that of the commits."""
        for seq in seqs:
            self._gaps.pop(seq, None)
            if seq > self._last:
                self._gaps.update(dict.fromkeys(range(self._last + 1, seq), now))
                self._last = seq

    def _rebuild(self, session: Session, now: float) -> None:
        # The feed first: what commits in between is then read twice, never missed.
        query = select(HostChange.seq).order_by(HostChange.seq.desc()).limit(LOOK_BACK)
        seqs = session.scalars(query).all()[::-1]
        self._gaps = {}
        self._last = seqs[0] - 1 if seqs else 0
        self._note(seqs, now)
        self._shared = Shared()
        records = read_hosts(session, None, self._shared)
        self.rows_read += len(records)
        gone = dict.fromkeys(self.table.row_of.keys() - records.keys())
        self.table.apply({**gone, **records})
        self._dirty = set()
        self._compared_at = now
        self._last_seen = {}
        self._stranger = True
        self._loaded = True

    def _read(self, session: Session) -> None:
        if not self._dirty:
            return
        records = read_hosts(session, self._dirty, self._shared)
        self.rows_read += len(records)
        for node_id, record in records.items():
            if record is None and node_id in self.table.row_of:
                gone = self.table.host(self.table.row_of[node_id])
                LOG.info("Compute node %s of host %s is gone", gone.node, gone.host)
        self.table.apply(records)
        services = {record.service_id for record in records.values() if record is not None}
        # A service has come whose heartbeat was never read: it must not count as silent for that.
        self._stranger = self._stranger or not services <= self._last_seen.keys()
        self._dirty = set()

    def _compare(self, session: Session, now: float) -> None:
        """Once a minute: nodes that changed although nobody said so, or whose change the feed lost."""
        stored = read_signatures(session)
        mine = {record.id: signature(record) for record in self.table.records}
        differing = {key for key in {*stored, *mine} if stored.get(key) != mine.get(key)} - self._dirty
        if differing:
            LOG.info("%d hosts had changed without a word in the feed", len(differing))
        self._dirty |= differing
        self._compared_at = now
        self._last_seen = {}

    # -- liveness ---------------------------------------------------------------------------------------------------

    def _listen(self, session: Session, now: float) -> None:
        query = select(Heartbeat.service_id, Heartbeat.last_seen)
        if len(self._last_seen) > FEW:
            query = query.where(Heartbeat.last_seen > max(self._last_seen.values()) - LATE)
        self._last_seen.update({row[0]: row[1] for row in session.execute(query)})
        self._stranger = False
        self._heard_at = now
        self.table.set_silent(self._silent(self._last_seen))

    def _silent(self, last_seen: Mapping[int, float]) -> dict[int, float]:
        dead = {service_id: last_seen[service_id] for service_id in silent(last_seen, self._down_time)}
        never = {record.service_id for record in self.table.records} - last_seen.keys()
        return {**dead, **dict.fromkeys(never, 0.0)}
