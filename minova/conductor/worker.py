"""This process as an owner of tasks: its id and lease, its clocks, and where its work runs in the background."""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TypeVar

from sqlalchemy import ColumnElement
from sqlalchemy.orm import Session

from minova import errors
from minova.context import RequestContext
from minova.db import tasks
from minova.db.engine import Database
from minova.log import bound_request
from minova.once import Once

LOG = logging.getLogger(__name__)
T = TypeVar("T")
Spawn = Callable[[Callable[[], None]], None]


class Worker:
    """`lease` in seconds. Without `spawn` it has up to `threads` threads of its own. `observe` sees every transaction
    before it begins.
    """

    def __init__(
        self,
        db: Database,
        *,
        host: str,
        lease: float,
        threads: int,
        clock: Callable[[], float] = time.time,
        spawn: Spawn | None = None,
        observe: Callable[[Session], None] | None = None,
    ) -> None:
        self.id = str(uuid.uuid4())
        self.db = db
        self._host = host
        self._lease = lease
        self._clock = clock
        self._observe = observe
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(threads, "tasks") if spawn is None else None
        self._once = Once(spawn or self._submit)

    @property
    def observed(self) -> bool:
        """Whether notifications are made of what transactions do."""
        return self._observe is not None

    def at(self) -> datetime:
        """Now, for people: UTC."""
        return datetime.fromtimestamp(self._clock(), UTC).replace(tzinfo=None)

    def now(self) -> ColumnElement[float]:
        """Now, for leases and wake-ups: the database's clock."""
        return self.db.now()

    def run(self, work: Callable[[Session], T]) -> T:
        """One write transaction. ServiceUnavailable: the database is away; tasks stay as they are."""
        observe = self._observe
        if observe is None:
            return self.db.run(work)

        def observed(session: Session) -> T:
            observe(session)
            return work(session)

        return self.db.run(observed)

    def register(self) -> None:
        """May be repeated: when no answer came, it may have been written all the same."""
        self.run(self.renew_lease)

    def renew_lease(self, session: Session) -> None:
        if not tasks.renew_lease(session, self.id, self.now(), self._lease):
            tasks.register_worker(session, self.id, self._host, self.now(), self._lease)

    def in_background(self, ctx: RequestContext, what: Hashable, work: Callable[[], None]) -> None:
        """Run `work` soon, unless the same (by `what`) waits or runs already: whoever looks for what is due finds it
        again and again until its turn has come.

        What it meets is logged: its task stays, and is looked at again when its time comes.
        """

        def guarded() -> None:
            with bound_request(ctx):
                try:
                    work()
                except errors.ServiceUnavailable as error:
                    LOG.warning("To be gone on with later: %s", error)
                except Exception:
                    LOG.exception("A task failed, and is tried again later")

        self._once(what, guarded)

    def stop(self) -> None:
        """Finish what runs, then let go of all tasks: others take them over at once."""
        self._stopped.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        try:
            self.run(lambda session: tasks.renew_lease(session, self.id, self.now(), -1.0))
        except errors.ServiceUnavailable as error:
            LOG.warning("The lease of this worker runs out by itself: %s", error)

    def _submit(self, work: Callable[[], None]) -> None:
        assert self._pool is not None
        try:
            self._pool.submit(work)
        except RuntimeError:
            if not self._stopped.is_set():
                raise
            LOG.debug("Not begun any more: another conductor takes it over")
