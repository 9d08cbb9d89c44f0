"""This process as an owner of tasks: its id and lease, its clocks, its background threads, and its gate in safe mode."""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import TypeVar

from sqlalchemy import ColumnElement
from sqlalchemy.orm import Session

from minova import errors
from minova.concurrency.single_flight import SingleFlight
from minova.conductor.notifications.instances import NotifiedSession
from minova.conductor.tasks.delivery import executed_once
from minova.conductor.tasks.history import HistoryMonitor, HistoryReading
from minova.conductor.tasks.pools import Pools, WorkKind
from minova.context import RequestContext
from minova.db.engine import Database
from minova.db.servers import tasks
from minova.log import bound_request
from minova.retry import retry_call
from minova.safe_mode import SafeMode
from minova.witness import Witness

LOG = logging.getLogger(__name__)
T = TypeVar("T")
Spawn = Callable[[Callable[[], None]], None]

# How often a lease is renewed within its time: 9 s outlast a stop of 8 s, whenever it begins.
RENEWALS = 18
# How often this worker acts on tasks without an owner that a renewal has seen: within 9 + 0.5 + 0.25 s of their owner's death.
TAKE_OVER_INTERVAL = 0.25
# Seconds after a pause in this worker's renewals before it takes tasks over. The pause may have concerned all workers,
# so the others get this time to renew their leases.
GRACE = 2.0
# Seconds that `leave` waits for the database, and `stop` for running work.
LEAVE_WITHIN = 1.0
STOP_WITHIN = 0.5


class TaskWorker:
    """Owns tasks and runs their transactions.

    `lease`: seconds.
    `threads`: how many of its own threads may wait for schedulers; it has threads of its own unless `spawn` is given.
    `leases`: the database again, with a connection that nothing else uses, so that renewals never wait for other work.
    `observe`: gets every transaction before it begins.
    `ticks`: seconds, monotonic.
    `wait`: pauses between tries, and returns whether the process stops.
    `safe_mode`: of the process.
    `witness`: what this conductor has seen of its cloud.
    """

    def __init__(
        self,
        db: Database,
        *,
        host: str,
        lease: float,
        threads: int,
        leases: Database | None = None,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
        spawn: Spawn | None = None,
        observe: Callable[[NotifiedSession], None] | None = None,
        wait: Callable[[float], bool] | None = None,
        safe_mode: SafeMode | None = None,
        witness: Witness | None = None,
    ) -> None:
        self.safe_mode = safe_mode or SafeMode()
        self.history = HistoryMonitor(host, self.safe_mode, witness, ticks=ticks)
        self.id = str(uuid.uuid4())
        self.db = db
        self.renew_interval = lease / RENEWALS
        self._host = host
        self._lease = lease
        self._leases = leases or db
        self._clock = clock
        self._ticks = ticks
        self._observe = observe
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._lease_lock = threading.Lock()
        self._left = False
        self._has_seen_orphans = False
        self._renewed_at: float | None = None
        self._quiet_until = float("-inf")
        self._pools = Pools(threads) if spawn is None else None
        self._once = {kind: SingleFlight(self._spawner(kind, spawn)) for kind in WorkKind}

    @property
    def observed(self) -> bool:
        """Returns whether the changes of transactions are notified."""
        return self._observe is not None

    def at(self) -> datetime:
        """Returns the present time for people: UTC, by this conductor's own clock. What is removed after some time goes by `now`."""
        return datetime.fromtimestamp(self._clock(), UTC).replace(tzinfo=None)

    def now(self) -> ColumnElement[float]:
        """Returns the present time for leases, wake-ups and removals: the cloud clock."""
        return self.db.now()

    def run(self, work: Callable[[Session], T]) -> T:
        """Runs one write transaction. Raises ServiceUnavailable if the database is away, or in safe mode; then tasks stay
        unchanged.
        """
        self.safe_mode.require_off()
        return self._run(work)

    def record(self, work: Callable[[Session], T]) -> T:
        """Same as `run`, also in safe mode: for what services report about themselves. Raises ServiceUnavailable if the
        database belongs to another cloud.
        """
        if self.history.is_foreign:
            self.safe_mode.require_off()
        return self._run(work)

    def _run(self, work: Callable[[Session], T]) -> T:
        return executed_once(self._transaction, work, self.at(), self.now())

    def _transaction(self, work: Callable[[Session], T]) -> T:
        observe = self._observe
        if observe is None:
            return self.db.run(work)

        def observed(session: Session) -> T:
            assert isinstance(session, NotifiedSession)
            observe(session)
            return work(session)

        return self.db.run(observed, NotifiedSession)

    def persist(self, what: str, work: Callable[[Session], T], seconds: float) -> T:
        """Same as `run`, but repeated for `seconds` while the database is away: for results that must not be lost.

        `work` may have been committed by an earlier try if the connection broke at the commit. Raises
        ServiceUnavailable if the database is still away or this worker stops.
        """
        return self.repeat(what, lambda: self.run(work), seconds)

    def repeat(self, what: str, ask: Callable[[], T], seconds: float) -> T:
        """Same as `persist`, for a function that runs its transaction itself."""
        return retry_call(what, ask, seconds=seconds, wait=self.pause)

    def pause(self, seconds: float) -> bool:
        """Returns whether this worker stops."""
        return self._stopped.is_set() or self._wait(seconds) or self._stopped.is_set()

    # -- the lease -------------------------------------------------------------------------------------------------

    def register(self) -> None:
        """May be repeated: without an answer, the registration may nevertheless be written."""
        self.renew()

    def renew(self) -> None:
        """Renew the lease, and look at the history of the database. Call it every `renew_interval`, in a thread that does
        nothing else. Raises ServiceUnavailable if the database belongs to another cloud.
        """
        with self._lease_lock:
            if self._left:
                return
            reading, has_seen_orphans = self._leases.run(self._renew)
            self.history.apply(reading)
            self._has_seen_orphans = has_seen_orphans
            if reading.is_foreign:
                self.safe_mode.require_off()
            now, before = self._ticks(), self._renewed_at
            self._renewed_at = now
        if before is not None and now - before > self._lease / 2:
            LOG.warning("The lease was not renewed for %.1f s", now - before)
            self._quiet_until = now + GRACE

    @property
    def has_seen_orphans(self) -> bool:
        """Returns whether, at the last renewal, another worker whose lease had ended owned tasks."""
        return self._has_seen_orphans

    def may_take_over(self) -> bool:
        """Returns False while the leases of others may have expired for the same reason as the own one, and after this
        worker has left.
        """
        return not self._left and self._ticks() >= self._quiet_until

    def leave(self) -> None:
        """Release all tasks at once, before anything else is stopped, so that other workers take them over."""
        self._stopped.set()
        leaving = threading.Thread(target=self._leave, name="leave", daemon=True)
        leaving.start()
        leaving.join(LEAVE_WITHIN)

    def _renew(self, session: Session) -> tuple[HistoryReading, bool]:
        """Writes nothing to the database of another cloud. Returns whether tasks have lost their owner, too: a transaction
        of its own for that costs as much as all of this.
        """
        now = self.now()
        reading = self.history.read(session, now)
        if reading.is_foreign:
            return reading, False
        if not tasks.renew_lease(session, self.id, now, self._lease):
            tasks.register_worker(session, self.id, self._host, now, self._lease)
        return self.history.write(session, reading, now), tasks.any_orphaned(session, self.id, now)

    def _leave(self) -> None:
        with self._lease_lock:
            if self._left:
                return
            self._left = True
            try:
                self._leases.run(lambda session: tasks.end_lease(session, self.id))
            except errors.ServiceUnavailable as error:
                LOG.warning("The lease of this worker runs out by itself: %s", error)

    # -- background work -------------------------------------------------------------------------------------------

    def in_background(self, ctx: RequestContext, kind: WorkKind, what: Hashable, work: Callable[[], None]) -> None:
        """Run `work` soon, in a thread for its kind, unless the same work (by `what`) already waits or runs. Every
        round for due tasks finds a task again until its work runs.

        Errors are logged: the task stays, and is processed again when it is due.
        """

        def guarded() -> None:
            with bound_request(ctx):
                try:
                    work()
                except errors.MinovaError as error:  # an outage, or a refusal with its reason
                    LOG.log(errors.level_of(error), "A task is continued later: %s", error)
                except Exception:
                    LOG.exception("A task failed, and is tried again later")

        self._once[kind](what, guarded)

    def stop(self) -> None:
        """Leave, then wait a moment for running work. Work that continues is fenced off once another worker has its
        task.
        """
        self.leave()
        if self._pools is not None:
            self._pools.stop(STOP_WITHIN)

    def _spawner(self, kind: WorkKind, spawn: Spawn | None) -> Spawn:
        if spawn is not None:
            return spawn

        def submit(work: Callable[[], None]) -> None:
            assert self._pools is not None
            if not self._pools.spawn(kind, work):
                LOG.debug("Not begun any more: another conductor takes it over")

        return submit
