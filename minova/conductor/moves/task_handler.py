"""The handler of the tasks of moves."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from minova.conductor.moves.in_progress import plan_of
from minova.conductor.moves.start import StartMoves
from minova.conductor.moves.steps import MoveSteps
from minova.conductor.tasks.pools import WorkKind
from minova.conductor.tasks.registry import HostLoss, TaskHandler
from minova.conductor.tasks.worker import TaskWorker
from minova.context import service_context
from minova.db.models import Task
from minova.db.servers import tasks as task_rows
from minova.objects.servers.failures import Failure
from minova.objects.servers.moves import MovePhase


class MoveTasks(TaskHandler):
    """Schedules again, asks the host of the phase again, or goes on without it."""

    ended_by: ClassVar[HostLoss | None] = HostLoss.ABSENT

    def __init__(self, worker: TaskWorker, start: StartMoves, steps: MoveSteps) -> None:
        self._worker = worker
        self._start = start
        self._steps = steps

    def resume(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            ctx, key = service_context(task.request_id), (task.instance_uuid, task.epoch)
            if plan_of(task).phase is MovePhase.SCHEDULE:
                work = partial(self._schedule, *key)
                self._worker.in_background(ctx, WorkKind.SCHEDULE, key, work)
            else:
                self._worker.in_background(ctx, WorkKind.ACTION, key, partial(self._steps.resume, ctx, *key))

    def expire(self, tasks: Sequence[Task], failure: Failure, *, final: bool = False) -> None:
        """A move that waits for its host already is looked at when it is due."""
        self.resume([task for task in tasks if not plan_of(task).waits])

    def _schedule(self, instance_uuid: str, epoch: int) -> None:
        with self._worker.db.read() as session:
            is_over = bool(task_rows.past_deadline(session, [instance_uuid], self._worker.now()))
        if is_over:
            failure = Failure(kind="NoScheduler", details="No scheduler has answered in time.")
            self._start.expire(instance_uuid, epoch, failure)
        else:
            self._start.schedule(service_context(), instance_uuid, epoch)
