"""SchedulerManager: the scheduler's side of its contract, and its life as a service."""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from minova import errors
from minova.context import RequestContext, service_context
from minova.contracts.conductor import ConductorApi
from minova.contracts.scheduler import SchedulerApi
from minova.db.engine import Database
from minova.objects.diagnosis import ScheduleAnswer
from minova.objects.request_spec import RequestSpec
from minova.objects.service import Service, ServiceInstructions
from minova.placement import changes
from minova.scheduler.extensions import DRIVERS, find
from minova.service import PeriodicTask, until_available

LOG = logging.getLogger(__name__)

BINARY = "minova-scheduler"
# Seconds that the feed of host changes is kept. A table that is further behind is read whole.
FEED_RETENTION = 600.0
TRIM_INTERVAL = 60.0


class Driver(Protocol):
    """What `[scheduler] driver` names: a class called with (conf, db, clock=...)."""

    def select_destinations(
        self,
        ctx: RequestContext,
        spec: RequestSpec,
        instance_uuids: tuple[str, ...],
        claim_no: int,
        alternates: int,
    ) -> ScheduleAnswer: ...


class SchedulerManager:
    """Implements SchedulerApi and service.Manager. `conductor` None: nobody is told that this service lives.

    InvalidConfiguration: an unknown driver, filter or weigher.
    """

    def __init__(
        self,
        conf: Any,
        db: Database,
        conductor: ConductorApi | None,
        *,
        host: str,
        clock: Callable[[], float] = time.time,
        stopping: threading.Event | None = None,
    ) -> None:
        self._conf = conf
        self._db = db
        self._conductor = conductor
        self._host = host
        self._stopping = stopping or threading.Event()
        self.driver: Driver = find(DRIVERS, conf.scheduler.driver, "[scheduler] driver")(conf, db, clock=clock)

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
            answer = self.driver.select_destinations(ctx, spec, instance_uuids, claim_no, alternates)
        except Exception as error:
            if getattr(error, "code", 500) == 500:
                LOG.exception("Failed to schedule for instances: %s", list(instance_uuids))
            else:
                LOG.info("%s", error)  # a late claim, a malformed request, a database that is away
            raise
        if not answer.selections:
            LOG.info("%s", answer.diagnosis.summary())
        return answer

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
        """Heartbeat, and the trimming of the feed."""
        trim = PeriodicTask(name="trim_host_changes", interval=TRIM_INTERVAL, work=self._trim)
        if self._conductor is None:
            return [trim]
        return [PeriodicTask(name="heartbeat", interval=self._conf.report_interval, work=self._beat), trim]

    def stop(self) -> None:
        """Nothing runs but what is being answered."""

    def _register(self) -> ServiceInstructions:
        assert self._conductor is not None
        service = Service(uuid=str(uuid.uuid4()), host=self._host, binary=BINARY, topic=SchedulerApi.TOPIC)
        return self._conductor.register_service(service_context(), service=service)

    def _beat(self) -> float:
        assert self._conductor is not None
        try:
            told = self._conductor.heartbeat(service_context(), host=self._host, binary=BINARY)
        except errors.NotFound:
            told = self._register()
        return told.heartbeat_interval

    def _trim(self) -> None:
        now = self._db.now()
        self._db.run(lambda session: changes.trim(session, now - FEED_RETENTION))
