"""What an operation of a server action is given, and how it tells of its progress."""

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
# Seconds between reports that the work goes on: the action then gets its whole time again.
BEAT = 60.0
# Seconds for which a conductor is waited for.
PATIENCE = 60.0


class ActionEnded(Exception):
    """The action is not to be gone on with; the guest stays as it is. The conductor has ended it, or asks for it again."""


class Order:
    """What is to be done. `cancelled` is set once it is not wanted any more: what waits for the guest ends then.

    `arguments`: those of the compute's method beside the instance and the action's id. `untouched`: a failure now leaves the
    guest as it was. `ask` asks the conductor whether the action is in progress, for the task state given to `confirm`:
    StaleAttempt, ServiceUnavailable.
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
        """ActionEnded: it is not wanted any more. Cheap: what waits calls it again and again."""
        if self.cancelled.is_set():
            raise ActionEnded(f"The action of instance {self.instance.uuid} is not wanted any more")

    def confirm(self, step: TaskState | None = None) -> None:
        """Before a step that changes the guest, after a wait. ActionEnded: the action has ended, or no conductor answers.

        `step`: the action is still there. None: in the one of its entry's `changes_at`, if it has one.
        """
        self.require_wanted()
        try:
            self._ask(step)
        except (errors.StaleAttempt, errors.ServiceUnavailable) as error:
            raise ActionEnded(str(error)) from error

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """What happens in it changes nothing of the guest."""
        self.untouched = True
        yield
        self.untouched = False


class Progress:
    """Tells the conductor how far an action is, and that it goes on. `clock`: seconds, monotonic."""

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
        """Reports the step now; what is answered is called by long work, and reports from time to time that it goes on.

        Both raise StaleAttempt and ActionEnded.
        """
        self._repeat("action_progressed", lambda: self._report(order, step), PATIENCE)
        last = self._clock()

        def check() -> None:
            nonlocal last
            order.require_wanted()
            if self._clock() - last >= BEAT:
                last = self._clock()
                with suppress(errors.ServiceUnavailable):  # the next one may be heard
                    self._report(order, step)

        return check

    def waiting(self, order: Order) -> Callable[[], None]:
        """What is answered is called while a guest is waited for, of an action without task states: from time to time it asks the
        conductor, which gives the action its whole time again. Raises ActionEnded.
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
        """Reports from a thread that work goes on which calls nothing. An action that has ended is no longer reported."""
        is_over = threading.Event()

        def beat() -> None:
            while not is_over.wait(BEAT):
                try:
                    self._report(order, step)
                except errors.ServiceUnavailable as error:
                    LOG.debug("Instance %s: the next report may be heard: %s", order.instance.uuid, error)
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
