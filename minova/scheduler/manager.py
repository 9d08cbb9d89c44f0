"""SchedulerManager: implements the scheduler's contract, and runs as a service."""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from minova import errors, metrics
from minova.context import RequestContext, service_context
from minova.contracts.conductor import ConductorApi
from minova.contracts.scheduler import SchedulerApi
from minova.db.engine import Database
from minova.db.recovery.cloud_watch import INTERVAL as WATCH_INTERVAL
from minova.db.recovery.cloud_watch import CloudWatch
from minova.messaging.notifier import Notifier
from minova.objects.hosts.cloud import WitnessRecord
from minova.objects.hosts.service import SERVICE_VERSION, Service, ServiceInstructions
from minova.objects.requests.capacity import Capacity
from minova.objects.requests.diagnosis import ScheduleAnswer
from minova.objects.requests.request_spec import RequestSpec
from minova.safe_mode import SafeMode
from minova.scheduler.drivers.make import make_driver
from minova.scheduler.drivers.request import Request, refused_answer
from minova.scheduler.notifications import SchedulerNotifications
from minova.scheduler.request.process import RequestProcessor
from minova.service import PeriodicTask, until_available
from minova.witness import Witness

LOG = logging.getLogger(__name__)

BINARY = "minova-scheduler"
CONFLICTS_INTERVAL = 60.0


class SchedulerManager(SchedulerApi):
    """Implements SchedulerApi and service.Manager.

    `conductor` None: the service is not registered and sends no heartbeats. `notifier` None: no notifications.
    `safe_mode`: of the process. `witness`: what this scheduler has seen of its cloud.
    Raises InvalidConfiguration for an unknown driver, filter or weigher, and for a malformed options file.
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
        safe_mode: SafeMode | None = None,
        witness: Witness | None = None,
    ) -> None:
        self.safe_mode = safe_mode or SafeMode()
        self.cloud = CloudWatch("scheduler", db, self.safe_mode, witness or Witness(None), tell=self._tell, ticks=clock)
        self._conf = conf
        self._db = db
        self._conductor = conductor
        self._host = host
        self._stopping = stopping or threading.Event()
        self._requests = RequestProcessor(conf, db)
        self.driver = make_driver(conf, db, clock)
        self._logged_conflicts = (0, 0)
        self._notifier = notifier
        self._notifications = SchedulerNotifications(notifier, host=host)

    # -- SchedulerApi -----------------------------------------------------------------------------------------------

    def select_destinations(
        self,
        ctx: RequestContext,
        spec: RequestSpec,
        instance_uuids: tuple[str, ...],
        claim_number: int,
        alternates: int,
    ) -> ScheduleAnswer:
        LOG.debug("Starting to schedule for instances: %s", list(instance_uuids))
        with _failure_logged(instance_uuids), metrics.timed(metrics.DECISION_SECONDS):
            try:
                spec = self._requests.process_request_spec(spec)
            except errors.NoValidHost as error:
                answer = refused_answer(ctx.request_id, instance_uuids, str(error))
            else:
                self._notifications.select_destinations(ctx, spec, instance_uuids, "start")
                answer = self.driver.select_destinations(
                    Request(
                        request_id=ctx.request_id,
                        spec=spec,
                        instance_uuids=instance_uuids,
                        claim_number=claim_number,
                        alternates=alternates,
                    )
                )
                if answer.selections:
                    self._notifications.select_destinations(ctx, spec, instance_uuids, "end")
        if not answer.selections:
            LOG.info("%s", answer.diagnosis.summary())
        return answer

    def preview_destinations(
        self, ctx: RequestContext, spec: RequestSpec, instance_uuids: tuple[str, ...]
    ) -> ScheduleAnswer:
        try:
            spec = self._requests.process_request_spec(spec)
        except errors.NoValidHost as error:
            return refused_answer(ctx.request_id, instance_uuids, str(error))
        return self.driver.preview_destinations(
            Request(request_id=ctx.request_id, spec=spec, instance_uuids=instance_uuids)
        )

    def capacity(self, ctx: RequestContext, spec: RequestSpec, limit: int) -> Capacity:
        try:
            spec = self._requests.process_request_spec(spec)
        except errors.NoValidHost as error:
            return Capacity(total=0, limit=limit, error=str(error))
        return self.driver.capacity(spec, limit)

    # -- service.Manager --------------------------------------------------------------------------------------------

    def init_host(self) -> None:
        """Looks whose the database is. A scheduler has no state to recover."""
        until_available("database", self.cloud.run, self._stopping)

    def pre_start_hook(self) -> None:
        """Registers the service. Waits until a conductor is available."""
        if self._conductor is not None:
            until_available("Registering with a conductor", self._register, self._stopping)

    def post_start_hook(self) -> None:
        """Does nothing."""

    def periodic_tasks(self) -> Sequence[PeriodicTask]:
        """Heartbeat, logging of conflicts, and the driver's tasks."""
        tasks = [
            PeriodicTask(name="watch_cloud", interval=WATCH_INTERVAL, work=self.cloud.run, in_safe_mode=True),
            PeriodicTask(name="log_conflicts", interval=CONFLICTS_INTERVAL, work=self.log_conflicts),
            *self.driver.periodic_tasks(),
        ]
        if self._conductor is None:
            return tasks
        interval = self._conf.report_interval
        return [PeriodicTask(name="heartbeat", interval=interval, work=self._beat, in_safe_mode=True), *tasks]

    def stop(self) -> None:
        """Sends the waiting notifications."""
        if self._notifier is not None:
            self._notifier.stop()

    def _register(self) -> ServiceInstructions:
        assert self._conductor is not None
        service = Service(
            uuid=str(uuid.uuid4()),
            host=self._host,
            binary=BINARY,
            topic=SchedulerApi.TOPIC,
            version=SERVICE_VERSION,
            seen=self.cloud.seen,
        )
        return self._conductor.register_service(service_context(), service=service)

    def _beat(self) -> float:
        assert self._conductor is not None
        try:
            instructions = self._conductor.heartbeat(service_context(), host=self._host, binary=BINARY)
        except errors.NotFound:
            instructions = self._register()
        return instructions.heartbeat_interval

    def _tell(self, seen: WitnessRecord) -> None:
        """Tells a conductor what this scheduler has seen of its cloud, when the database shows less."""
        if self._conductor is not None:
            with suppress(errors.ServiceUnavailable):  # the next look tells it again
                self._conductor.service_has_seen(service_context(), host=self._host, binary=BINARY, seen=seen)

    def log_conflicts(self) -> None:
        """Logs the number of conflicts if there were any since the last call."""
        conflicts = self.driver.conflicts
        now = (conflicts.claims_refused, conflicts.decisions_repeated)
        if now != self._logged_conflicts:
            LOG.info("Claims refused since the start: %d, decisions repeated: %d", *now)
            self._logged_conflicts = now


@contextmanager
def _failure_logged(instance_uuids: tuple[str, ...]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if getattr(error, "code", 500) == 500:
            LOG.exception("Failed to schedule for instances: %s", list(instance_uuids))
        else:
            LOG.info("%s", error)  # a late claim, a malformed request, or the database is unavailable
        raise
