"""The input of an operation of a server action, and the reports of its progress."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import NamedTuple

from minova import errors
from minova.compute.actions.reporter import ActionReporter
from minova.compute.conductor_retry import ConductorRetry
from minova.compute.instances.abandonment import Abandoned
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState, TaskState

LOG = logging.getLogger(__name__)
# Seconds between reports that the work goes on, at most; each report restarts the time limit of the action.
BEAT = 60.0
# The least number of reports within the time limit of an action.
BEATS = 4
# Seconds to wait for a conductor.
PATIENCE = 60.0

# Calls the function at this interval, in seconds, while its context lasts or until the function returns False.
Repeated = Callable[[float, Callable[[], bool]], AbstractContextManager[None]]


@contextmanager
def repeated(seconds: float, work: Callable[[], bool]) -> Iterator[None]:
    """A `Repeated` with a thread of its own."""
    is_over = threading.Event()

    def loop() -> None:
        with suppress(Abandoned):
            while not is_over.wait(seconds) and work():
                pass

    threading.Thread(target=loop, name="progress", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


class ActionEnded(Exception):
    """The action must not continue; the guest stays as it is. The conductor has ended the action, or will request it
    again.
    """


class ActionKey(NamedTuple):
    """Identifies an action on a host: a restored database gives the number of an action to another one, of this instance or of another."""

    instance_uuid: str
    action_id: int
    request_id: str


class ActionRun:
    """One server action to run. `cancelled` is set once the action is not wanted any more; waits for the guest then
    end.

    `untouched`: a failure now leaves the guest as it was.
    `step`: the task state that was reported last; empty: none was.
    `kept`: the guest was left as it is, because it was already as the action wants it.
    `forced`: the guest did not shut itself down in time, and was forced.
    `hardware`: what the action has chosen for the guest.
    `has_replaced`: the action may have replaced disks of the guest, in this process or an earlier one. `note_replacing` is called before
    the first of them is replaced.
    `is_stale`: the conductor has answered that the action is no longer in progress. If the work has succeeded
    nevertheless, it is reported.
    `ask` asks the conductor whether the action is still in progress, with the task state given to `confirm`. It raises
    StaleAttempt or ServiceUnavailable.
    """

    def __init__(
        self,
        ctx: RequestContext,
        action_id: int,
        instance: Instance,
        arguments: HostArguments,
        ask: Callable[[TaskState | None], None],
        *,
        has_replaced: bool = False,
        note_replacing: Callable[[], None] = lambda: None,
    ) -> None:
        self.ctx = ctx
        self.action_id = action_id
        self.instance = instance
        self.arguments = arguments
        self.cancelled = threading.Event()
        self.untouched = False
        self.step = ""
        self.kept = False
        self.forced = False
        self.hardware: ChosenHardware | None = None
        self.has_replaced = has_replaced
        self._note_replacing = note_replacing
        self.is_stale = False
        self._ask = ask

    @property
    def key(self) -> ActionKey:
        return ActionKey(self.instance.uuid, self.action_id, self.ctx.request_id)

    def replaces(self) -> None:
        """Call this before the first disk of the guest is replaced. Raises HypervisorError if that cannot be noted."""
        self._note_replacing()
        self.has_replaced = True

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


# Returns the power state of the guest.
Operation = Callable[[ActionRun], PowerState]


class ActionProgress:
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
        repeated: Repeated = repeated,
    ) -> None:
        self._reporter = ActionReporter(host, conductor)
        self._clock = clock
        self._repeat = repeat or ConductorRetry()
        self._repeated = repeated

    def check(self, run: ActionRun, step: TaskState) -> Callable[[], None]:
        """Reports the step now, and returns a function for long work to call: it reports from time to time that the
        work goes on.

        Both raise StaleAttempt or ActionEnded.
        """
        self._repeat("action_progressed", lambda: self._report(run, step), PATIENCE)
        last = self._clock()

        def check() -> None:
            nonlocal last
            run.require_wanted()
            if self._clock() - last >= BEAT:
                last = self._clock()
                with suppress(errors.ServiceUnavailable):  # the next report may succeed
                    self._report(run, step)

        return check

    def waiting(self, run: ActionRun) -> Callable[[], None]:
        """Returns a function to call while waiting for a guest, for an action without task states. From time to time it
        confirms the action with the conductor, which restarts the time limit of the action. The function raises
        ActionEnded.
        """
        last = self._clock()

        def check() -> None:
            nonlocal last
            run.require_wanted()
            if self._clock() - last >= BEAT:
                last = self._clock()
                run.confirm()

        return check

    def during(self, run: ActionRun, time_limit: float) -> AbstractContextManager[None]:
        """Reports while the context lasts that the action is in progress, whatever its work waits for: its time limit, in
        seconds, counts from the last report.
        """
        return self._repeated(min(BEAT, time_limit / BEATS), lambda: self.beat(run))

    def beat(self, run: ActionRun) -> bool:
        """Reports that the action is in progress. Returns False if it is not any more: waits for the guest then end."""
        try:
            self._report(run)
        except errors.ServiceUnavailable as error:
            LOG.debug("Instance %s: a later report may arrive: %s", run.instance.uuid, error)
        except errors.StaleAttempt as error:
            LOG.info("Instance %s: %s", run.instance.uuid, error)
            run.is_stale = True
            run.cancelled.set()
        except ActionEnded:
            return False
        return not run.is_stale

    def _report(self, run: ActionRun, step: TaskState | None = None) -> None:
        run.require_wanted()
        if step is not None:
            run.step = step.value
        self._reporter.progressed(run.ctx, run.instance.uuid, run.action_id, run.step)
