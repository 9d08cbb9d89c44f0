"""The input of an operation of a server action, and the reports of its progress."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from minova import errors
from minova.compute.conductor_retry import ConductorRetry
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.instance import Instance
from minova.objects.states import TaskState

LOG = logging.getLogger(__name__)
# Seconds between reports that the work goes on; each report restarts the time limit of the action.
BEAT = 60.0
# Seconds to wait for a conductor.
PATIENCE = 60.0


class ActionEnded(Exception):
    """The action must not continue; the guest stays as it is. The conductor has ended the action, or will request it
    again.
    """


class Order:
    """One server action to run. `cancelled` is set once the action is not wanted any more; waits for the guest then
    end.

    `arguments` are those of the compute's method other than the instance and the action's id.
    `untouched`: a failure now leaves the guest as it was.
    `ask` asks the conductor whether the action is still in progress, with the task state given to `confirm`. It raises
    StaleAttempt or ServiceUnavailable.
    """

    def __init__(
        self,
        ctx: RequestContext,
        action_id: int,
        instance: Instance,
        arguments: Mapping[str, Any],
        ask: Callable[[TaskState | None], None],
    ) -> None:
        self.ctx = ctx
        self.action_id = action_id
        self.instance = instance
        self.arguments = arguments
        self.cancelled = threading.Event()
        self.untouched = False
        self._ask = ask

    def require_wanted(self) -> None:
        """Raises ActionEnded if the action is not wanted any more. Cheap, so that waiting code can call it
        repeatedly.
        """
        if self.cancelled.is_set():
            raise ActionEnded(f"The action of instance {self.instance.uuid} is not wanted any more")

    def confirm(self, step: TaskState | None = None) -> None:
        """Call this after a wait, before a step that changes the guest. Raises ActionEnded if the action has ended, or
        if no conductor answers.

        `step` is the task state that the action is still in; None: the state `changes_at` of its entry, if it has one.
        """
        self.require_wanted()
        try:
            self._ask(step)
        except (errors.StaleAttempt, errors.ServiceUnavailable) as error:
            raise ActionEnded(str(error)) from error

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """Work inside this block does not change the guest."""
        self.untouched = True
        yield
        self.untouched = False


class Progress:
    """Reports to the conductor which step an action has reached, and that it goes on. `clock` returns monotonic
    seconds.
    """

    def __init__(
        self,
        host: str,
        conductor: ConductorApi,
        *,
        clock: Callable[[], float] = time.monotonic,
        repeat: ConductorRetry | None = None,
    ) -> None:
        self._host = host
        self._conductor = conductor
        self._clock = clock
        self._repeat = repeat or ConductorRetry()

    def check(self, order: Order, step: TaskState) -> Callable[[], None]:
        """Reports the step now, and returns a function for long work to call: it reports from time to time that the
        work goes on.

        Both raise StaleAttempt or ActionEnded.
        """
        self._repeat("action_progressed", lambda: self._report(order, step), PATIENCE)
        last = self._clock()

        def check() -> None:
            nonlocal last
            order.require_wanted()
            if self._clock() - last >= BEAT:
                last = self._clock()
                with suppress(errors.ServiceUnavailable):  # the next report may succeed
                    self._report(order, step)

        return check

    def waiting(self, order: Order) -> Callable[[], None]:
        """Returns a function to call while waiting for a guest, for an action without task states. From time to time it
        confirms the action with the conductor, which restarts the time limit of the action. The function raises
        ActionEnded.
        """
        last = self._clock()

        def check() -> None:
            nonlocal last
            order.require_wanted()
            if self._clock() - last >= BEAT:
                last = self._clock()
                order.confirm()

        return check

    @contextmanager
    def during(self, order: Order, step: TaskState) -> Iterator[None]:
        """Reports from a thread that the work goes on, for work that calls no function meanwhile. Stops when the action
        has ended.
        """
        is_over = threading.Event()

        def beat() -> None:
            while not is_over.wait(BEAT):
                try:
                    self._report(order, step)
                except errors.ServiceUnavailable as error:
                    LOG.debug("Instance %s: a later report may arrive: %s", order.instance.uuid, error)
                except (ActionEnded, errors.MinovaError) as error:
                    LOG.info("Progress of instance %s is no longer reported: %s", order.instance.uuid, error)
                    return

        threading.Thread(target=beat, name=f"progress-{order.instance.uuid}", daemon=True).start()
        try:
            yield
        finally:
            is_over.set()

    def _report(self, order: Order, step: TaskState) -> None:
        order.require_wanted()
        self._conductor.action_progressed(
            order.ctx,
            instance_uuid=order.instance.uuid,
            action_id=order.action_id,
            host=self._host,
            task_state=step.value,
        )
