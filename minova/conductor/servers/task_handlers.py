"""The handlers of servers' tasks: scheduling, builds on hosts, and deletions."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from oslo_config import cfg
from sqlalchemy.orm import Session

from minova.conductor.compute_messages import ComputeClient, build_plan_of, builds_of
from minova.conductor.servers.build import BuildInstances
from minova.conductor.servers.builds.failed_attempts import FailedAttempts
from minova.conductor.servers.terminate import Terminate
from minova.conductor.tasks.pools import WorkKind
from minova.conductor.tasks.registry import HostLoss, TaskHandler, TaskRegistry
from minova.conductor.tasks.worker import TaskWorker
from minova.context import service_context
from minova.db.models import Task, TaskStep
from minova.db.servers import tasks as task_rows
from minova.objects.servers.failures import Failure

# Seconds for which a background task repeats a transaction while the database is away; after that the task is found
# again as due.
TRY_FOR = 60.0


class ScheduleTasks:
    """Schedules the instances of one request together again."""

    ended_by: ClassVar[HostLoss | None] = None

    def __init__(self, worker: TaskWorker, builds: BuildInstances) -> None:
        self._worker = worker
        self._builds = builds

    def start(self, tasks: Sequence[Task]) -> None:
        self.resume(tasks)

    def resume(self, tasks: Sequence[Task]) -> None:
        by_reservation: dict[str, dict[str, int]] = defaultdict(dict)
        for task in tasks:
            by_reservation[task.reservation_id][task.instance_uuid] = task.epoch
        requests = {task.reservation_id: task.request_id for task in reversed(tasks)}
        for reservation_id, epochs in by_reservation.items():
            ctx = service_context(requests[reservation_id])
            # The epochs are part of the key, because work begun before a task was lost and taken back is void.
            what = (reservation_id, frozenset(epochs.values()))
            self._worker.in_background(
                ctx,
                WorkKind.SCHEDULE,
                what,
                partial(self._schedule, reservation_id, epochs),
            )

    def expire(self, tasks: Sequence[Task], failure: Failure, *, final: bool = False) -> None:
        self._builds.expire({task.instance_uuid: task.epoch for task in tasks}, failure)

    def _schedule(self, reservation_id: str, epochs: Mapping[str, int]) -> None:
        expired = self._worker.persist("A look at deadlines", lambda session: self._expired(session, epochs), TRY_FOR)
        if expired:
            failure = Failure(kind="NoScheduler", details="No scheduler has answered in time.")
            self._builds.expire({uuid: epochs[uuid] for uuid in expired}, failure)
        unexpired = {uuid: epoch for uuid, epoch in epochs.items() if uuid not in expired}
        if unexpired:
            self._builds.reschedule(service_context(), reservation_id, unexpired)

    def _expired(self, session: Session, epochs: Mapping[str, int]) -> set[str]:
        return task_rows.past_deadline(session, epochs, self._worker.now())


class BuildTasks:
    """Gives up an attempt that has waited too long, as if its host had reported a failure."""

    ended_by: ClassVar[HostLoss | None] = HostLoss.ABSENT

    def __init__(
        self, worker: TaskWorker, failures: FailedAttempts, computes: ComputeClient, build_timeout: float
    ) -> None:
        self._worker = worker
        self._failures = failures
        self._computes = computes
        self._build_timeout = build_timeout

    def start(self, tasks: Sequence[Task]) -> None:
        with self._worker.db.read() as session:
            builds = builds_of(session, tasks)
        by_uuid = {task.instance_uuid: task for task in tasks}
        for build in builds:
            task = by_uuid[build.message.instance.uuid]
            ctx = service_context(task.request_id)
            what = (task.instance_uuid, task.attempt)
            # A cast blocks while the broker is away.
            self._worker.in_background(ctx, WorkKind.CAST, what, partial(self._computes.build, ctx, [build]))

    def resume(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            failure = Failure(kind="HostTooSlow", details=f"not built within {self._build_timeout:g} s")
            self._give_up(task, failure, retriable=True)

    def expire(self, tasks: Sequence[Task], failure: Failure, *, final: bool = False) -> None:
        """A build that waits for its host already is looked at when it is due."""
        for task in tasks:
            if not build_plan_of(task).waits:
                self._give_up(task, failure, retriable=not final)

    def _give_up(self, task: Task, failure: Failure, *, retriable: bool) -> None:
        ctx = service_context(task.request_id)
        uuid, attempt, host = task.instance_uuid, task.attempt, task.host or ""
        self._worker.in_background(
            ctx,
            WorkKind.BUILD,
            (uuid, attempt),
            lambda: self._failures.give_up(ctx, uuid, attempt, host, failure, retriable),
        )


class DeleteTasks(TaskHandler):
    """Asks the host again. `Terminate.resume` decides about a deletion without a host."""

    ended_by: ClassVar[HostLoss | None] = HostLoss.ABSENT

    def __init__(self, worker: TaskWorker, terminate: Terminate) -> None:
        self._worker = worker
        self._terminate = terminate

    def resume(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            self._resume(task)

    def expire(self, tasks: Sequence[Task], failure: Failure, *, final: bool = False) -> None:
        self.resume(tasks)

    def _resume(self, task: Task) -> None:
        ctx = service_context(task.request_id)
        uuid, epoch = task.instance_uuid, task.epoch
        self._worker.in_background(
            ctx, WorkKind.DELETE, (uuid, epoch), lambda: self._terminate.resume(ctx, uuid, epoch)
        )


def task_registry(
    conf: cfg.ConfigOpts,
    worker: TaskWorker,
    computes: ComputeClient,
    *,
    builds: BuildInstances,
    failures: FailedAttempts,
    terminate: Terminate,
    actions: TaskHandler,
    moves: TaskHandler,
) -> TaskRegistry:
    """Returns the table of handlers for all steps. `actions`, `moves`: the handlers of server actions and moves."""
    handlers: dict[TaskStep, TaskHandler] = {
        TaskStep.SCHEDULE: ScheduleTasks(worker, builds),
        TaskStep.BUILD: BuildTasks(worker, failures, computes, float(conf.conductor.build_timeout)),
        TaskStep.DELETE: DeleteTasks(worker, terminate),
        TaskStep.ACTION: actions,
        TaskStep.MOVE: moves,
    }
    return TaskRegistry(handlers)
