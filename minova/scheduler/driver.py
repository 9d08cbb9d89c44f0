"""What a driver is to the scheduler's manager."""

from collections.abc import Sequence

from minova.context import RequestContext
from minova.objects.diagnosis import ScheduleAnswer
from minova.objects.request_spec import RequestSpec
from minova.scheduler.settle import Conflicts, Settler
from minova.service import PeriodicTask


class Driver:
    """Made with (conf, db, clock=...). How it chooses hosts is its own; how the choice is settled, the settler's."""

    def __init__(self, settler: Settler) -> None:
        self._settler = settler

    @property
    def conflicts(self) -> Conflicts:
        return self._settler.conflicts

    def select_destinations(
        self, ctx: RequestContext, spec: RequestSpec, instance_uuids: tuple[str, ...], claim_no: int, alternates: int
    ) -> ScheduleAnswer:
        """See SchedulerApi."""
        return self._settler.select_destinations(ctx, spec, instance_uuids, claim_no, alternates)

    def periodic_tasks(self) -> Sequence[PeriodicTask]:
        return ()
