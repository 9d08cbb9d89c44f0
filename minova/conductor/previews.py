"""What would become of a request, asked of the scheduler and never written: where it would go, how often it fits."""

import uuid

from oslo_config import cfg

from minova.conductor.groups import Groups
from minova.conductor.servers import spec_of
from minova.context import RequestContext
from minova.contracts.scheduler import SchedulerApi
from minova.objects.capacity import Capacity
from minova.objects.diagnosis import ScheduleAnswer
from minova.objects.request_spec import RequestSpec
from minova.objects.server_request import ServerRequest


class Previews:
    def __init__(self, conf: cfg.ConfigOpts, scheduler: SchedulerApi, groups: Groups) -> None:
        self._conf = conf
        self._scheduler = scheduler
        self._groups = groups

    def preview_servers(self, ctx: RequestContext, request: ServerRequest) -> ScheduleAnswer:
        """See the contract."""
        # Names for servers that there will never be: a server group counts them.
        nobody = tuple(str(uuid.uuid4()) for _ in range(request.max_count))
        return self._scheduler.preview_destinations(ctx, spec=self._spec(ctx, request), instance_uuids=nobody)

    def capacity(self, ctx: RequestContext, request: ServerRequest, limit: int) -> Capacity:
        """See the contract."""
        return self._scheduler.capacity(ctx, spec=self._spec(ctx, request), limit=limit)

    def _spec(self, ctx: RequestContext, request: ServerRequest) -> RequestSpec:
        """As `create_servers` and `schedule` make it."""
        return self._groups.read_for_nobody(spec_of(ctx, request, self._conf.pci.alias))
