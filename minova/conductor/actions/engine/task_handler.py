"""The handler of the tasks of server actions."""

from collections.abc import Sequence
from typing import ClassVar

from minova.conductor.actions.engine.requests import ServerActions
from minova.conductor.tasks.pools import WorkKind
from minova.conductor.tasks.registry import HostLoss, TaskHandler
from minova.conductor.tasks.worker import TaskWorker
from minova.context import service_context
from minova.db.models import Task
from minova.objects.servers.failures import Failure


class ActionTasks(TaskHandler):
    """Asks the host again, or fails the action, so that the instance returns to its earlier state."""

    ended_by: ClassVar[HostLoss | None] = HostLoss.FENCED

    def __init__(self, worker: TaskWorker, actions: ServerActions) -> None:
        self._worker = worker
        self._actions = actions

    def resume(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            self._resume(task)

    def expire(self, tasks: Sequence[Task], failure: Failure, *, final: bool = False) -> None:
        for task in tasks:
            self._expire(task, failure)

    def _resume(self, task: Task) -> None:
        ctx = service_context(task.request_id)
        key = (task.instance_uuid, task.action_id, task.epoch)
        self._worker.in_background(ctx, WorkKind.ACTION, key, lambda: self._actions.resume(ctx, *key))

    def _expire(self, task: Task, failure: Failure) -> None:
        ctx = service_context(task.request_id)
        key = (task.instance_uuid, task.action_id, task.epoch)
        self._worker.in_background(ctx, WorkKind.ACTION, ("expire", *key), lambda: self._actions.expire(*key, failure))
