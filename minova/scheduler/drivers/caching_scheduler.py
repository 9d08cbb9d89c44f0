"""CachingScheduler: as FilterScheduler, but a periodic task refreshes the table, not each request.

Between two refreshes it re-reads only the hosts that it has filled itself and those that refused a claim. Before it
rejects a request it reads all changes, unlike Nova's CachingScheduler: no request is rejected for resources that have
become free since.
"""

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from minova.db.engine import Database
from minova.scheduler.drivers.base import Driver
from minova.scheduler.drivers.claim_loop import ClaimLoop
from minova.scheduler.drivers.filter_scheduler import decide_by_filters, rules_of
from minova.scheduler.hosts.table import HostTable
from minova.scheduler.refresh.host_source import HostSource
from minova.service import PeriodicTask

DEFAULT_INTERVAL = 60.0


class CachedSource:
    """A HostSource that reads the change feed only in `refresh(liveness=True)`."""

    def __init__(self, source: HostSource) -> None:
        self._source = source
        self.table = source.table

    @property
    def liveness_checked(self) -> bool:
        return self._source.liveness_checked

    def refresh(self, *, liveness: bool = False) -> HostTable:
        return self._source.refresh(liveness=True) if liveness else self._source.reread()

    def invalidate(self, node_ids: set[int]) -> None:
        self._source.invalidate(node_ids)


class CachingScheduler(Driver):
    """Raises InvalidConfiguration for an unknown filter or weigher."""

    def __init__(
        self, conf: Any, db: Database, *, clock: Callable[[], float], rng: random.Random | None = None
    ) -> None:
        rules = rules_of(conf, rng or random.Random())
        self.source = CachedSource(HostSource(db, service_down_time=conf.service_down_time, clock=clock))
        self._interval = conf.scheduler.periodic_task_interval or DEFAULT_INTERVAL
        super().__init__(
            ClaimLoop(db, self.source, partial(decide_by_filters, rules_for=lambda _: rules)), lambda _: rules
        )

    def periodic_tasks(self) -> Sequence[PeriodicTask]:
        if self._interval < 0:
            return ()
        return [PeriodicTask(name="refresh_hosts", interval=float(self._interval), work=self._refresh, at_once=True)]

    def _refresh(self) -> None:
        self._claim_loop.exclusive(lambda: self.source.refresh(liveness=True))
