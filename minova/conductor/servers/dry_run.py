"""Dry runs: the scheduler reports where a request would go and how often it fits, and nothing is written.

A dry run occupies a message thread until the scheduler has answered. So only a few run at the same time, each for a few
seconds at most, and further ones are refused at once. A project that uses all of them takes none from others: see FairShares.
"""

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from oslo_config import cfg

from minova import errors
from minova.concurrency.fair_shares import NoPlace, SharedPlaces
from minova.conductor.catalogue.server_groups import Groups
from minova.conductor.quotas import Quotas
from minova.conductor.servers.create import counted, fitting_count, refusal_of, spec_of
from minova.context import RequestContext
from minova.contracts.conductor.api.servers import DryRunsApi
from minova.contracts.scheduler import SchedulerApi
from minova.objects.requests.capacity import Capacity
from minova.objects.requests.diagnosis import Diagnosis, ScheduleAnswer
from minova.objects.requests.request_spec import RequestSpec
from minova.objects.requests.server_request import ServerRequest
from minova.objects.servers.failures import text_of

LOG = logging.getLogger(__name__)


class DryRuns(DryRunsApi):
    """`scheduler` is a client with a short time-out."""

    def __init__(self, conf: cfg.ConfigOpts, quotas: Quotas, scheduler: SchedulerApi, groups: Groups) -> None:
        self._conf = conf
        self._quotas = quotas
        self._scheduler = scheduler
        self._groups = groups
        self._most = int(conf.conductor.max_concurrent_dry_runs)
        # With the defaults half of the message threads are left to other messages.
        self._places = SharedPlaces(self._most, 2 * self._most)

    def preview_servers(self, ctx: RequestContext, request: ServerRequest) -> ScheduleAnswer:
        """See the contract."""
        request = self._as_the_quota_allows(ctx, request)
        # UUIDs of servers that do not exist; the limits of a server group count them.
        placeholders = tuple(str(uuid.uuid4()) for _ in range(request.max_count))
        spec = self._spec(ctx, request)
        try:
            with self._one_of_few(ctx.project_id):
                return self._scheduler.preview_destinations(ctx, spec=spec, instance_uuids=placeholders)
        except Exception as error:  # noqa: BLE001  - the caller gets it as text or as an error
            _require_broken(error)
            # Every user may call this, so the answer does not say what failed; the log does.
            text = text_of("SchedulingFailed")
            broke = Diagnosis(request_id=ctx.request_id, instance_uuids=placeholders, hosts=0, error=text)
            return ScheduleAnswer(diagnosis=broke)

    def capacity(self, ctx: RequestContext, request: ServerRequest, limit: int) -> Capacity:
        """See the contract."""
        spec = self._spec(ctx, request)
        try:
            with self._one_of_few(ctx.project_id):
                return self._scheduler.capacity(ctx, spec=spec, limit=limit)
        except Exception as error:  # noqa: BLE001  - the caller gets it as text or as an error
            _require_broken(error)
            return Capacity(total=0, limit=limit, error=f"Scheduling failed: {error}")

    def _as_the_quota_allows(self, ctx: RequestContext, request: ServerRequest) -> ServerRequest:
        over = self._quotas.overrun(ctx.project_id, counted(request, request.max_count))
        if over is None:
            return request
        fits = fitting_count(over, request, request.max_count)
        if fits < request.min_count:
            raise refusal_of(over, request)
        return msgspec.structs.replace(request, max_count=fits)

    @contextmanager
    def _one_of_few(self, project_id: str) -> Iterator[None]:
        """Raises ServiceUnavailable if the project may have no further dry run now."""
        try:
            self._places.take(project_id)
        except NoPlace:
            raise errors.ServiceUnavailable(
                f"{self._most} dry runs are under way in this conductor, and more are not begun. Please try again in a moment."
            ) from None
        try:
            yield
        finally:
            self._places.give(project_id)

    def _spec(self, ctx: RequestContext, request: ServerRequest) -> RequestSpec:
        """Returns the spec that `create_servers` and `schedule` would make."""
        return self._groups.read_for_dry_run(spec_of(ctx, request, self._conf.pci.alias))


def _require_broken(error: Exception) -> None:
    """Raises the error, unless a creation would have ended with it, too, such as the error of a filter that raises."""
    if getattr(error, "code", 500) != 500:
        raise error
    LOG.error("A preview failed: %s", error, exc_info=error)
