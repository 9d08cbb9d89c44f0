"""FilterScheduler: the default driver. Filters and weighers over a table that is refreshed for each request."""

import logging
import random
from collections.abc import Callable
from functools import partial
from typing import Any

from minova.db.engine import Database
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.decide.chain import Rules
from minova.scheduler.decide.decision import Decision, decide
from minova.scheduler.drivers.base import Driver, RulesFor
from minova.scheduler.drivers.claim_loop import ClaimLoop
from minova.scheduler.drivers.request import Request
from minova.scheduler.extensions import load_filters, load_weighers
from minova.scheduler.filters.affinity import ServerGroupAffinityFilter, ServerGroupAntiAffinityFilter
from minova.scheduler.hosts.table import HostTable
from minova.scheduler.refresh.host_source import HostSource

LOG = logging.getLogger(__name__)


class FilterScheduler(Driver):
    """`rng` draws among hosts of equal weight; a fixed seed makes a run repeatable. Raises InvalidConfiguration for an
    unknown filter or weigher.
    """

    def __init__(
        self, conf: Any, db: Database, *, clock: Callable[[], float], rng: random.Random | None = None
    ) -> None:
        rules = rules_of(conf, rng or random.Random())
        self.source = HostSource(db, service_down_time=conf.service_down_time, clock=clock)
        super().__init__(
            ClaimLoop(db, self.source, partial(decide_by_filters, rules_for=lambda _: rules)), lambda _: rules
        )


def rules_of(conf: Any, rng: random.Random) -> Rules:
    """Returns the rules that the options set. Raises InvalidConfiguration for an unknown filter or weigher."""
    return Rules(
        filters=load_filters(conf),
        weighers=load_weighers(conf),
        host_subset_size=conf.filter_scheduler.host_subset_size,
        shuffle_best_same_weighed_hosts=conf.filter_scheduler.shuffle_best_same_weighed_hosts,
        max_placement_results=conf.scheduler.max_placement_results,
        draw=rng.randrange,
        one_cell=True,
        packing=conf.compute.packing_host_numa_cells_allocation_strategy,
    )


def decide_by_filters(table: HostTable, request: Request, rules_for: RulesFor) -> Decision:
    """Decides by filters and weighers. Writes Nova's log lines if their level is on.

    All schedulers prefer the same host. After a lost claim the request draws among twice as many of the best hosts each
    time: otherwise the slower scheduler comes second again and again, and refuses a request that has room.
    """
    rules = rules_for(request.spec)
    if request.lost_claims:
        rules = rules._replace(host_subset_size=max(rules.host_subset_size, 2**request.lost_claims))
    if LOG.isEnabledFor(logging.DEBUG):
        rules = rules._replace(log_debug=LOG.debug)
    if LOG.isEnabledFor(logging.INFO):
        rules = rules._replace(log_info=LOG.info)
    return decide(table, request.spec, request.instance_uuids, request.alternates, rules)


def with_group_filters(rules: Rules, spec: RequestSpec, conf: Any) -> Rules:
    """Adds the group filters for drivers that do not use the configured filters: otherwise the claim would refuse a
    host that violates a hard group policy.
    """
    if spec.instance_group is None:
        return rules
    return rules._replace(
        filters=(*rules.filters, ServerGroupAntiAffinityFilter(conf), ServerGroupAffinityFilter(conf))
    )
