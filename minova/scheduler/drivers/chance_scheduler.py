"""ChanceScheduler: a random host that is up, enabled, not ignored and a candidate of Placement.

Nova's ChanceScheduler claims no allocation, so it may choose a full host. Here each selection is claimed, and the claim
also enforces the hard policy of a server group.
"""

import random
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minova.db.engine import Database
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.decide.chain import Rules
from minova.scheduler.drivers.base import Driver
from minova.scheduler.drivers.claim_loop import ClaimLoop
from minova.scheduler.drivers.filter_scheduler import decide_by_filters, with_group_filters
from minova.scheduler.filters.compute import ComputeFilter
from minova.scheduler.hosts.table import HostTable
from minova.scheduler.refresh.host_source import HostSource
from minova.scheduler.weights import Floats, Weigher


class RandomWeigher(Weigher):
    """A random weight for each host, so that alternates are random, too. As in Nova, hosts that this request has taken come
    last.
    """

    def __init__(self, conf: Any, rng: random.Random) -> None:
        super().__init__(conf)
        self._rng = rng

    def column(self, hosts: HostTable, rows: NDArray[np.int64], spec: RequestSpec) -> Floats:
        weights = np.fromiter((self._rng.random() for _ in rows), np.float64, len(rows))
        is_consumed = np.fromiter((hosts.records[row].id in hosts.consumed for row in rows), bool, len(rows))
        column: Floats = weights - is_consumed
        return column


class ChanceScheduler(Driver):
    def __init__(
        self, conf: Any, db: Database, *, clock: Callable[[], float], rng: random.Random | None = None
    ) -> None:
        drawn = rng or random.Random()
        rules = Rules(
            filters=[ComputeFilter(conf)],
            weighers=[RandomWeigher(conf, drawn)],
            host_subset_size=1,
            shuffle_best_same_weighed_hosts=False,
            max_placement_results=sys.maxsize,
            draw=drawn.randrange,
        )
        source = HostSource(db, service_down_time=conf.service_down_time, clock=clock)

        def rules_for(spec: RequestSpec) -> Rules:
            return with_group_filters(rules, spec, conf)

        super().__init__(ClaimLoop(db, source, partial(decide_by_filters, rules_for=rules_for)), rules_for)
