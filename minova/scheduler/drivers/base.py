"""The base of scheduler drivers: what the scheduler's manager calls."""

import threading
from collections.abc import Callable, Sequence

from minova import errors
from minova.objects.requests.capacity import Capacity
from minova.objects.requests.diagnosis import ScheduleAnswer
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.decide.capacity import capacity_of
from minova.scheduler.decide.chain import Rules
from minova.scheduler.drivers.claim_loop import ClaimLoop, Conflicts
from minova.scheduler.drivers.request import Request
from minova.service import PeriodicTask

RulesFor = Callable[[RequestSpec], Rules]


class Driver:
    """Created with (conf, db, clock=...). A driver makes the decisions; its claim loop refreshes the table and claims.

    `rules` are used by `capacity`, which may run while the claim loop decides with the same filters: a filter keeps no state.
    """

    def __init__(self, claim_loop: ClaimLoop, rules: RulesFor | None = None) -> None:
        self._claim_loop = claim_loop
        self._rules_for = rules
        self._counting = threading.Lock()

    @property
    def conflicts(self) -> Conflicts:
        return self._claim_loop.conflicts

    def select_destinations(self, request: Request) -> ScheduleAnswer:
        """See SchedulerApi."""
        return self._claim_loop.queue.ask(request)

    def preview_destinations(self, request: Request) -> ScheduleAnswer:
        """See SchedulerApi."""
        return self._claim_loop.preview(request)

    def capacity(self, spec: RequestSpec, limit: int) -> Capacity:
        """See SchedulerApi. Raises BadRequest if this driver has no rules for it."""
        if self._rules_for is None:
            raise errors.BadRequest(f"The scheduler driver {type(self).__name__} cannot report capacity.")
        with self._counting:
            return capacity_of(self._claim_loop.what_if_table(), spec, self._rules_for(spec), limit)

    def periodic_tasks(self) -> Sequence[PeriodicTask]:
        return ()
