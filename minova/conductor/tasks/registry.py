"""The work of a conductor on the tasks that it owns: one handler for each step."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Protocol

from minova.db.models import Task, TaskStep
from minova.objects.failures import Failure

LOG = logging.getLogger(__name__)


class TaskHandler(Protocol):
    """Handles the tasks in one step. Each method passes work to the background and returns at once.

    A task may be passed more than once, or too late, so the work checks its row again under lock.
    """

    waits_for_host: ClassVar[bool]
    """Whether its tasks wait for the host that they name."""

    def start(self, tasks: Sequence[Task]) -> None:
        """Send from the rows what may never have been sent: after a take-over, or if the broker has lost messages."""
        ...

    def resume(self, tasks: Sequence[Task]) -> None:
        """Continue tasks whose wake-up time has come."""
        ...

    def expire(self, tasks: Sequence[Task], failure: Failure, *, final: bool = False) -> None:
        """End tasks for which waiting is useless. `final`: no other host is tried."""
        ...


class TaskRegistry:
    """Passes tasks to the handlers of their steps. Tasks in steps of a later release are left to that release's
    conductors.
    """

    def __init__(self, handlers: Mapping[TaskStep, TaskHandler]) -> None:
        # The keys are strings, because a row may have a step that this release does not know.
        self._handlers: Mapping[str, TaskHandler] = {step.value: handler for step, handler in handlers.items()}
        self.steps = tuple(handlers)

    def start(self, tasks: Iterable[Task]) -> None:
        self._each(tasks, lambda handler, together: handler.start(together))

    def resume(self, tasks: Iterable[Task]) -> None:
        self._each(tasks, lambda handler, together: handler.resume(together))

    def expire(self, tasks: Iterable[Task], failure: Failure, *, final: bool = False) -> None:
        self._each(tasks, lambda handler, together: handler.expire(together, failure, final=final))

    def wait_for_host(self, tasks: Iterable[Task]) -> list[Task]:
        """Returns the tasks that wait for the host that they name."""
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
