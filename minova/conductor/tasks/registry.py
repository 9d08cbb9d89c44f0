"""The work of a conductor on the tasks that it owns: one handler for each step."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import ClassVar, Protocol

from minova.db.models import Task, TaskStep
from minova.objects.servers.failures import Failure

LOG = logging.getLogger(__name__)


class HostLoss(Enum):
    """How sure it is that no work is done on a host any more; see `conductor/hosts/liveness.py`."""

    ABSENT = auto()
    FENCED = auto()


class TaskHandler(Protocol):
    """Handles the tasks in one step. Each method passes work to the background and returns at once.

    A task may be passed more than once, or too late, so the work checks its row again under lock.
    """

    ended_by: ClassVar[HostLoss | None]
    """The loss of the host that they name which makes its tasks expire; None: they do not wait for a host."""

    def start(self, tasks: Sequence[Task]) -> None:
        """Send from the rows what may never have been sent: after a take-over, or if the broker has lost messages."""
        self.resume(tasks)

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

    def steps_ended_by(self, loss: HostLoss) -> tuple[str, ...]:
        """Returns the steps whose tasks expire if their host is lost in this way."""
        return tuple(step for step, handler in self._handlers.items() if handler.ended_by is loss)

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
