"""What a conductor does with the tasks that it owns, by their step: one handler in this table for each."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Protocol

from minova.db.models import Task, TaskStep
from minova.objects.failures import Failure

LOG = logging.getLogger(__name__)


class TaskHandler(Protocol):
    """What becomes of tasks in one step. Each method hands work to the background and returns at once.

    A task may be handed over more than once, or too late: the work checks its row again under lock.
    """

    waits_for_host: ClassVar[bool]
    """Whether its tasks wait for the host that they name."""

    def start(self, tasks: Sequence[Task]) -> None:
        """Send from their rows what may never have been sent: after a take-over, or when the broker has lost messages."""
        ...

    def resume(self, tasks: Sequence[Task]) -> None:
        """Their wake-up time has come."""
        ...

    def expire(self, tasks: Sequence[Task], failure: Failure, *, final: bool = False) -> None:
        """End them: there is nothing left to wait for. `final`: no other host is tried."""
        ...


class TaskRegistry:
    """Hands tasks to the handlers of their steps. Tasks in steps of a later release are left to its conductors."""

    def __init__(self, handlers: Mapping[TaskStep, TaskHandler]) -> None:
        # A row's step may be one that this release does not know, so the keys are strings.
        self._handlers: Mapping[str, TaskHandler] = {step.value: handler for step, handler in handlers.items()}
        self.steps = tuple(handlers)

    def start(self, tasks: Iterable[Task]) -> None:
        self._each(tasks, lambda handler, together: handler.start(together))

    def resume(self, tasks: Iterable[Task]) -> None:
        self._each(tasks, lambda handler, together: handler.resume(together))

    def expire(self, tasks: Iterable[Task], failure: Failure, *, final: bool = False) -> None:
        self._each(tasks, lambda handler, together: handler.expire(together, failure, final=final))

    def wait_for_host(self, tasks: Iterable[Task]) -> list[Task]:
        """Those that wait for the host that they name."""
        return [task for task in tasks if (handler := self._handlers.get(task.step)) and handler.waits_for_host]

    def _each(self, tasks: Iterable[Task], work: Callable[[TaskHandler, Sequence[Task]], None]) -> None:
        by_step: dict[str, list[Task]] = defaultdict(list)
        for task in tasks:
            by_step[task.step].append(task)
        for step, together in by_step.items():
            handler = self._handlers.get(step)
            if handler is None:
                LOG.info("%d tasks are in step %s, which this release does not know", len(together), step)
            else:
                work(handler, together)
