"""SchedulerManager: the scheduler's side of its contract, and its life as a service."""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from minova import errors, metrics
from minova.context import RequestContext, service_context
from minova.contracts.conductor import ConductorApi
from minova.contracts.scheduler import SchedulerApi
from minova.db.engine import Database
from minova.notifier import Notifier
from minova.objects.capacity import Capacity
from minova.objects.diagnosis import ScheduleAnswer
from minova.objects.request_spec import RequestSpec
from minova.objects.service import SERVICE_VERSION, Service, ServiceInstructions
from minova.scheduler.drivers.make import make_driver
from minova.scheduler.drivers.request import refused_answer
from minova.scheduler.notifications import Notifications
from minova.scheduler.request.process import RequestProcessor
from minova.service import PeriodicTask, until_available

LOG = logging.getLogger(__name__)

BINARY = "minova-scheduler"
CONFLICTS_INTERVAL = 60.0


class SchedulerManager:
    """Implements SchedulerApi and service.Manager. `conductor` None: nobody is told that this service lives;
    `notifier` None: nor what it does.

    InvalidConfiguration: an unknown driver, filter or weigher, or a malformed options file.
    """

    def __init__(
        self,
        conf: Any,
        db: Database,
        conductor: ConductorApi | None,
        *,
        host: str,
        clock: Callable[[], float] = time.monotonic,
        stopping: threading.Event | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        self._conf = conf
        self._db = db
        self._conductor = conductor
        self._host = host
        self._stopping = stopping or threading.Event()
        self._requests = RequestProcessor(conf, db)
        self.driver = make_driver(conf, db, clock)
        self._logged_conflicts = (0, 0)
        self._notifier = notifier
        self._notifications = Notifications(notifier, host=host)

    # -- SchedulerApi -----------------------------------------------------------------------------------------------

    def select_destinations(
        self,
        ctx: RequestContext,
        spec: RequestSpec,
        instance_uuids: tuple[str, ...],
        claim_no: int,
        alternates: int,
    ) -> ScheduleAnswer:
        """See SchedulerApi."""
        LOG.debug("Starting to schedule for instances: %s", list(instance_uuids))
        try:
            with metrics.timed(metrics.DECISION_SECONDS):
                answer = self._answer(ctx, spec, instance_uuids, claim_no, alternates)
        except Exception as error:
            if getattr(error, "code", 500) == 500:
                LOG.exception("Failed to schedule for instances: %s", list(instance_uuids))
            else:
                LOG.info("%s", error)  # a late claim, a malformed request, a database that is away
            raise
        if not answer.selections:
            LOG.info("%s", answer.diagnosis.summary())
        return answer

    def _answer(
        self, ctx: RequestContext, spec: RequestSpec, instance_uuids: tuple[str, ...], claim_no: int, alternates: int
    ) -> ScheduleAnswer:
        try:
            spec = self._requests.process_request_spec(spec)
        except errors.NoValidHost as error:
            return refused_answer(ctx.request_id, instance_uuids, str(error))
        self._notifications.select_destinations(ctx, spec, "start")
        answer = self.driver.select_destinations(ctx, spec, instance_uuids, claim_no, alternates)
        if answer.selections:
            self._notifications.select_destinations(ctx, spec, "end")
        return answer

    def preview_destinations(
        self, ctx: RequestContext, spec: RequestSpec, instance_uuids: tuple[str, ...]
    ) -> ScheduleAnswer:
        """See SchedulerApi."""
        try:
            prepared = self._requests.process_request_spec(spec)
        except errors.NoValidHost as error:
            return refused_answer(ctx.request_id, instance_uuids, str(error))
        return self.driver.preview_destinations(ctx, prepared, instance_uuids)

    def capacity(self, ctx: RequestContext, spec: RequestSpec, limit: int) -> Capacity:
        """See SchedulerApi."""
        try:
            prepared = self._requests.process_request_spec(spec)
        except errors.NoValidHost as error:
            return Capacity(total=0, limit=limit, error=str(error))
        return self.driver.capacity(prepared, limit)

    # -- service.Manager --------------------------------------------------------------------------------------------

    def init_host(self) -> None:
        """Nothing to take up: a scheduler keeps no state of its own."""

    def pre_start_hook(self) -> None:
        """Make the service known, and wait for a conductor that can do so."""
        if self._conductor is not None:
            until_available("Registering with a conductor", self._register, self._stopping)

    def post_start_hook(self) -> None:
        """Nothing."""

    def periodic_tasks(self) -> Sequence[PeriodicTask]:
        """Heartbeat, figures in the log, and what the driver has to do."""
        tasks = [
            PeriodicTask(name="log_conflicts", interval=CONFLICTS_INTERVAL, work=self.log_conflicts),
            *self.driver.periodic_tasks(),
        ]
        if self._conductor is None:
            return tasks
        return [PeriodicTask(name="heartbeat", interval=self._conf.report_interval, work=self._beat), *tasks]

    def stop(self) -> None:
        """Nothing runs but what is being answered, and what is still to be told of it."""
        if self._notifier is not None:
            self._notifier.stop()

    def _register(self) -> ServiceInstructions:
        assert self._conductor is not None
        service = Service(
            uuid=str(uuid.uuid4()), host=self._host, binary=BINARY, topic=SchedulerApi.TOPIC, version=SERVICE_VERSION
        )
        return self._conductor.register_service(service_context(), service=service)

    def _beat(self) -> float:
        assert self._conductor is not None
        try:
            told = self._conductor.heartbeat(service_context(), host=self._host, binary=BINARY)
        except errors.NotFound:
            told = self._register()
        return told.heartbeat_interval

    def log_conflicts(self) -> None:
        """A line in the log, if there were any since the last one."""
        conflicts = self.driver.conflicts
        now = (conflicts.claims_refused, conflicts.decisions_repeated)
        if now != self._logged_conflicts:
            LOG.info("Claims refused since the start: %d, decisions repeated: %d", *now)
            self._logged_conflicts = now
