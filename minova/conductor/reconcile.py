"""What is done from time to time, so that nothing waits for ever: leases, take-over, tasks past their time."""

import logging
from collections import defaultdict
from collections.abc import Iterable

from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import metrics
from minova.conductor.compute_messages import Casts, builds_of
from minova.conductor.hosts.liveness import Liveness
from minova.conductor.servers.build import BuildInstances
from minova.conductor.servers.build_reports import BuildReports
from minova.conductor.servers.terminate import Terminate
from minova.conductor.tasks.pools import Kind
from minova.conductor.tasks.worker import Worker
from minova.context import service_context
from minova.db.models import Task
from minova.db.servers import tasks

LOG = logging.getLogger(__name__)

# Seconds that a background task repeats a transaction while the database is away; then it is found again.
TRY_FOR = 60.0
# Tasks looked at in one round; the next round is only seconds away.
MOST = 500


class Reconcile:
    def __init__(
        self,
        conf: cfg.ConfigOpts,
        worker: Worker,
        builds: BuildInstances,
        reports: BuildReports,
        terminate: Terminate,
        casts: Casts,
        liveness: Liveness,
    ) -> None:
        self._conf = conf
        self._worker = worker
        self._builds = builds
        self._reports = reports
        self._terminate = terminate
        self._casts = casts
        self._liveness = liveness
        self._all_unsent = False
        self._build_timeout = conf.conductor.build_timeout
        self._instance_build_timeout = conf.instance_build_timeout

    def look_after_tasks(self) -> None:
        """Look at what has waited too long, or for a dead host."""
        self._end_late_builds()
        self._cast_again()
        down = self._liveness.down_hosts()
        with self._worker.db.read() as session:
            due = list(tasks.due(session, self._worker.id, self._worker.now(), MOST))
            waiting = tasks.count_by_step(session, self._worker.id)
            stuck = [task for task in tasks.on_hosts(session, self._worker.id, down, MOST) if task.step != "schedule"]
        for step in ("schedule", "build", "delete"):
            metrics.TASKS.labels(step).set(waiting.get(step, 0))
        seen = {task.id for task in due}
        self._go_on(due, f"not built within {self._build_timeout} s")
        self._go_on([task for task in stuck if task.id not in seen], "the host is down")

    def take_over(self) -> None:
        """Tasks whose owner's lease is over go on from their rows: messages that it may not have sent are sent."""
        if not self._worker.may_take_over():
            return
        with self._worker.db.read() as session:
            if not tasks.any_orphaned(session, self._worker.id, self._worker.now()):
                return
        taken = self._worker.run(lambda session: tasks.take_over(session, self._worker.id, self._worker.now(), MOST))
        LOG.info("Taking over %d tasks", len(taken))
        self._cast_builds([task for task in taken if task.step == "build"])
        self._go_on([task for task in taken if task.step != "build"], "")

    def _end_late_builds(self) -> None:
        """`instance_build_timeout` is for the build as a whole, whatever hosts are left to try."""
        if not self._instance_build_timeout:
            return
        before = self._worker.now() - float(self._instance_build_timeout)
        with self._worker.db.read() as session:
            late = tasks.builds_since(session, self._worker.id, before, MOST)
        reason = f"not built within instance_build_timeout, {self._instance_build_timeout} s"
        for task in late:
            if task.step == "build":
                self._give_up_attempt(task, reason, retriable=False)
        waiting = {task.instance_uuid: task.epoch for task in late if task.step == "schedule"}
        if waiting:
            self._builds.expire(waiting, f"The instance was {reason}.")

    def broker_is_back(self) -> None:
        """A restarted broker has lost what no host had read yet: at the next look all of it is sent again."""
        self._all_unsent = True

    def _cast_again(self) -> None:
        """Messages that could not be sent, or may be lost: of builds that their hosts have not claimed, and of deletions."""
        everything, self._all_unsent = self._all_unsent, False
        due = self._casts.unsent.due()
        if not (everything or due):
            return
        with self._worker.db.read() as session:
            found = list(tasks.unclaimed(session, self._worker.id, None if everything else due))
        if found:
            LOG.info("Sending the messages of %d tasks again", len(found))
        self._cast_builds([task for task in found if task.step == "build"])
        self._go_on([task for task in found if task.step == "delete"], "")

    def _cast_builds(self, building: list[Task]) -> None:
        """In the background: while the broker is away a cast waits for it."""
        if not building:
            return
        with self._worker.db.read() as session:
            builds = builds_of(session, building)
        by_uuid = {task.instance_uuid: task for task in building}
        for build in builds:
            task = by_uuid[build.message.instance.uuid]
            ctx = service_context(task.request_id)
            what = (task.instance_uuid, task.attempt)
            self._worker.in_background(ctx, Kind.CAST, what, lambda c=ctx, b=build: self._casts.build(c, [b]))  # type: ignore[misc]

    def _go_on(self, found: Iterable[Task], reason: str) -> None:
        to_schedule: dict[str, list[Task]] = defaultdict(list)
        for task in found:
            if task.step == "schedule":
                to_schedule[task.reservation_id].append(task)
            elif task.step == "build":
                self._give_up_attempt(task, reason)
            elif task.step == "delete":
                self._delete_again(task)
        for reservation_id, together in to_schedule.items():
            self._schedule_again(reservation_id, together)

    def _give_up_attempt(self, task: Task, reason: str, *, retriable: bool = True) -> None:
        ctx = service_context(task.request_id)
        uuid, attempt, host = task.instance_uuid, task.attempt, task.host or ""
        self._worker.in_background(
            ctx,
            Kind.BUILD,
            (uuid, attempt),
            lambda: self._reports.build_failed(ctx, uuid, attempt, host, reason, retriable),
        )

    def _delete_again(self, task: Task) -> None:
        ctx = service_context(task.request_id)
        uuid, epoch = task.instance_uuid, task.epoch
        self._worker.in_background(ctx, Kind.DELETE, (uuid, epoch), lambda: self._terminate.go_on(ctx, uuid, epoch))

    def _schedule_again(self, reservation_id: str, together: list[Task]) -> None:
        ctx = service_context(together[0].request_id)
        epochs = {task.instance_uuid: task.epoch for task in together}
        # By their epochs too: what was begun before a task was lost and taken back is void.
        what = (reservation_id, frozenset(epochs.values()))
        self._worker.in_background(ctx, Kind.SCHEDULE, what, lambda: self._schedule(reservation_id, epochs))

    def _schedule(self, reservation_id: str, epochs: dict[str, int]) -> None:
        ctx = service_context()
        expired = self._worker.persist("A look at deadlines", lambda session: self._expired(session, epochs), TRY_FOR)
        if expired:
            self._builds.expire({uuid: epochs[uuid] for uuid in expired}, "No scheduler has answered in time.")
        left = {uuid: epoch for uuid, epoch in epochs.items() if uuid not in expired}
        if left:
            self._builds.again(ctx, reservation_id, left)

    def _expired(self, session: Session, epochs: dict[str, int]) -> set[str]:
        return tasks.past_deadline(session, epochs, self._worker.now())
