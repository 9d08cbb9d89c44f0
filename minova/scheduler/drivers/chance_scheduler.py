"""ChanceScheduler: a host at random that is up, enabled, not ignored and has room. Nothing else is asked.

Nova's claims no allocation and so may choose a full host; here the claim is part of every answer, and with it the hard
policy of a server group.
"""

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minova.db.engine import Database
from minova.objects.request_spec import RequestSpec
from minova.scheduler.decide.decision import Decision, Rules
from minova.scheduler.drivers.base import Driver
from minova.scheduler.drivers.claim_loop import ClaimLoop
from minova.scheduler.drivers.filter_scheduler import decide_by_filters, with_group_filters
from minova.scheduler.drivers.request import Request
from minova.scheduler.filters.compute import ComputeFilter
from minova.scheduler.hosts.table import HostTable
from minova.scheduler.refresh.host_source import HostSource
from minova.scheduler.weights import Floats, Weigher


class Lot(Weigher):
    """Draws a lot for each host, so that alternates are random too; hosts that this request has taken come last, as in
    Nova.
    """

    def __init__(self, conf: Any, rng: random.Random) -> None:
        super().__init__(conf)
        self._rng = rng

    def column(self, hosts: HostTable, rows: NDArray[np.int64], spec: RequestSpec) -> Floats:
        lots = np.fromiter((self._rng.random() for _ in rows), np.float64, len(rows))
        taken = np.fromiter((hosts.records[row].id in hosts.consumed for row in rows), bool, len(rows))
        found: Floats = lots - taken
        return found


class ChanceScheduler(Driver):
    def __init__(
        self, conf: Any, db: Database, *, clock: Callable[[], float], rng: random.Random | None = None
    ) -> None:
        drawn = rng or random.Random()
        rules = Rules(
            filters=[ComputeFilter(conf)],
            weighers=[Lot(conf, drawn)],
            host_subset_size=1,
            shuffle_best_same_weighed_hosts=False,
            max_placement_results=sys.maxsize,
            draw=drawn.randrange,
        )
        source = HostSource(db, service_down_time=conf.service_down_time, clock=clock)

        def chosen(table: HostTable, request: Request) -> Decision:
            return decide_by_filters(table, request, with_group_filters(rules, request.spec, conf))

        super().__init__(
            ClaimLoop(db, source, chosen),
            lambda spec: with_group_filters(rules._replace(filters=[ComputeFilter(conf)]), spec, conf),
        )
