"""What a driver is to the scheduler's manager."""

import threading
from collections.abc import Callable, Sequence

from minova import errors
from minova.context import RequestContext
from minova.objects.capacity import Capacity
from minova.objects.diagnosis import ScheduleAnswer
from minova.objects.request_spec import RequestSpec
from minova.scheduler.decide.capacity import capacity_of
from minova.scheduler.decide.chain import Rules
from minova.scheduler.drivers.claim_loop import ClaimLoop, Conflicts
from minova.scheduler.drivers.request import Request
from minova.service import PeriodicTask

MadeRules = Callable[[RequestSpec], Rules]


class Driver:
    """Made with (conf, db, clock=...). How it chooses hosts is its own; how the choice is settled, the claim_loop's.

    `rules` says which hosts it would choose from. Its filters are none of those that decide: both may be asked at once.
    """

    def __init__(self, claim_loop: ClaimLoop, rules: MadeRules | None = None) -> None:
        self._claim_loop = claim_loop
        self._what_if_rules = rules
        self._counting = threading.Lock()

    @property
    def conflicts(self) -> Conflicts:
        return self._claim_loop.conflicts

    def select_destinations(
        self, ctx: RequestContext, spec: RequestSpec, instance_uuids: tuple[str, ...], claim_no: int, alternates: int
    ) -> ScheduleAnswer:
        """See SchedulerApi."""
        return self._claim_loop.select_destinations(ctx, spec, instance_uuids, claim_no, alternates)

    def preview_destinations(
        self, ctx: RequestContext, spec: RequestSpec, instance_uuids: tuple[str, ...]
    ) -> ScheduleAnswer:
        """See SchedulerApi."""
        return self._claim_loop.preview(
            Request(request_id=ctx.request_id, spec=spec, instance_uuids=instance_uuids, claim_no=0, alternates=0)
        )

    def capacity(self, spec: RequestSpec, limit: int) -> Capacity:
        """See SchedulerApi. BadRequest: this driver does not say which hosts it would choose from."""
        if self._what_if_rules is None:
            raise errors.BadRequest(f"The scheduler driver {type(self).__name__} does not tell its capacity.")
        with self._counting:
            return capacity_of(self._claim_loop.what_if_table(), spec, self._what_if_rules(spec), limit)

    def periodic_tasks(self) -> Sequence[PeriodicTask]:
        return ()
