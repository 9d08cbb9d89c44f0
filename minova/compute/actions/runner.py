"""Server actions on this host. Each asks the conductor whether to begin, runs an operation of the driver and reports
the result.

begin_action (is it still in progress?) -> the operation (`operations`) -> action_succeeded or action_failed
                                             meanwhile: action_progressed, from time to time

All of it happens under the lock of the instance, so a message that comes twice, or after the action has ended, changes
nothing. The result of an operation is stored until a conductor has received it: if the action is requested again, the
host only reports.

An operation that meets a hypervisor that is away, or a guest on which the hypervisor still works, waits and begins again. It
waits at most for the time limit of the action. Only a job that the hypervisor names and that goes on may take longer: the
monitor of a guest that hangs looks busy for ever.
A conductor that has heard nothing of an action for too long asks this host to cancel it. An action that has not begun never
begins then; one that has begun continues, because only its own end shows what became of the guest.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

import msgspec

from minova import errors
from minova.compute.actions.action_run import ActionEnded, ActionKey, ActionProgress, ActionRun
from minova.compute.actions.operations import Operations
from minova.compute.actions.reporter import ActionReporter
from minova.compute.actions.results import Result, UnreportedResults
from minova.compute.conductor_retry import ConductorRetry
from minova.compute.instances.domains import Domains
from minova.compute.instances.power_states import PowerStates
from minova.compute.tracker.nodes import Nodes
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.actions.action import SECRET_TIMEOUT, ServerAction
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.actions.table import BY_KIND
from minova.objects.servers.failures import kind_of
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState, TaskState
from minova.objects.unexpected.guest_record import EndedAction

LOG = logging.getLogger(__name__)
# Seconds for which a report is repeated; afterwards the conductor requests the action again.
REPORT_PATIENCE = 60.0
# Seconds between tries of an operation that waits for the hypervisor.
HYPERVISOR_PAUSE = 1.0
# How often an operation begins again after its connection to the hypervisor broke.
MOST_AGAIN = 3
# Cancelled actions that are remembered. Their messages, if any, are no older.
MOST_REFUSED = 1000


class InstanceActions:
    """`power_state` reads the power state of an instance from the driver. `time_limit`: the seconds without a sign of life
    after which a conductor asks this host to cancel an action. `clock` returns monotonic seconds.
    """

    def __init__(
        self,
        host: str,
        operations: Operations,
        power_state: Callable[[str], PowerState | None],
        conductor: ConductorApi,
        nodes: Nodes,
        domains: Domains,
        power_states: PowerStates,
        progress: ActionProgress,
        *,
        time_limit: float,
        repeat: ConductorRetry | None = None,
        results: UnreportedResults | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._progress = progress
        self._time_limit = time_limit
        self._results = results or UnreportedResults()
        self._host = host
        self._operations = operations
        self._power_state = power_state
        self._reporter = ActionReporter(host, conductor)
        self._nodes = nodes
        self._domains = domains
        self._power_states = power_states
        self._repeat = repeat or ConductorRetry()
        self._running: dict[str, ActionRun] = {}
        # An action either begins or is refused.
        self._deciding = threading.Lock()
        self._refused: deque[ActionKey] = deque(maxlen=MOST_REFUSED)

    def run(
        self,
        ctx: RequestContext,
        action: ServerAction,
        instance: Instance,
        action_id: int,
        arguments: HostArguments,
    ) -> None:
        """Raises ServiceUnavailable if no conductor has answered; then the conductor requests the action again."""
        with self._domains.locked(instance.uuid):
            run = ActionRun(
                ctx,
                action_id,
                instance,
                arguments,
                lambda step: self._confirm(ctx, instance.uuid, action_id, step),
                has_replaced=self._results.has_replaced(instance.uuid, action_id, ctx.request_id),
                note_replacing=lambda: self._results.replaces(instance.uuid),
            )
            if not self._may_begin(run):
                self._report_refusal(ctx, instance.uuid, action_id)
                return
            try:
                self._run(ctx, action, action_id, run)
            finally:
                del self._running[instance.uuid]

    def refuse_unknown(self, ctx: RequestContext, instance_uuid: str, action_id: int, kind: str) -> None:
        """Report that this host does not know actions of this kind: it runs an older release than the conductor."""
        refused = Result(
            instance_uuid=instance_uuid,
            action_id=action_id,
            power_state=self._power_state_if_known(instance_uuid),
            kind=kind_of(errors.PeerTooOld()),
            untouched=True,
        )
        self._report_failure(ctx, refused, f"it runs a release without the action {kind[:64]}")

    def give_up(self, ctx: RequestContext, instance_uuid: str, action_id: int) -> None:
        """Cancel the action because its time is over, if it has not begun, and report which of both is the case. The
        result of an action that has ended is reported again.

        Raises ServiceUnavailable if no conductor has answered, or if other work on the instance is in progress; then the
        conductor asks again.
        """
        key = ActionKey(instance_uuid, action_id, ctx.request_id)
        with self._deciding:
            running = self._running.get(instance_uuid)
            is_running = running is not None and running.key == key
            has_begun = is_running or self._has_begun(ctx, instance_uuid, action_id)
            if not has_begun and key not in self._refused:
                self._refused.append(key)
        if not has_begun:
            LOG.warning("Action %d of instance %s has not begun in time, and is cancelled", action_id, instance_uuid)
            self._report_refusal(ctx, instance_uuid, action_id)
            return
        if not is_running and self._is_over(ctx, instance_uuid, action_id):
            with self._domains.locked_at_once(instance_uuid):
                self._report_end(ctx, instance_uuid, action_id)
            return
        LOG.info("Action %d of instance %s has begun, and is not cancelled", action_id, instance_uuid)
        step = running.step if running is not None and is_running else ""
        self._reporter.progressed(ctx, instance_uuid, action_id, step)

    def _has_begun(self, ctx: RequestContext, instance_uuid: str, action_id: int) -> bool:
        """Whether the action has begun, or ended, in this process or an earlier one."""
        ended = self._ended(ctx, instance_uuid, action_id)
        return ended is not None or self._results.has_begun(instance_uuid, action_id, ctx.request_id)

    def _is_over(self, ctx: RequestContext, instance_uuid: str, action_id: int) -> bool:
        """Whether the action has ended, or was interrupted for good: the arguments of a secret one are stored nowhere."""
        begun = BY_KIND.get(self._results.begun_kind(instance_uuid, action_id, ctx.request_id) or "")
        if begun is not None:
            return begun.secret or self._ended(ctx, instance_uuid, action_id) is not None
        return self._has_begun(ctx, instance_uuid, action_id)

    def _report_end(self, ctx: RequestContext, instance_uuid: str, action_id: int) -> None:
        """The caller holds the lock of the instance, so that no request of the action runs meanwhile."""
        stored = self._results.of(instance_uuid, action_id, ctx.request_id)
        recorded = self._recorded(ctx, instance_uuid, action_id)
        result = stored or recorded
        if result is None:
            # Since it was looked at, it may have ended and been received.
            if self._results.begun_kind(instance_uuid, action_id, ctx.request_id) is not None:
                self._report_interruption(ctx, instance_uuid, action_id)
            return
        LOG.info("Action %d of instance %s has ended, and is reported again", action_id, instance_uuid)
        action = BY_KIND.get(result.action or (recorded.action if recorded is not None else ""))
        if result.reason is not None:
            self._report_failure(ctx, result, result.reason)
        elif action is not None:
            self._report_success(ctx, action, result)
        else:
            raise errors.ServiceUnavailable(f"The end of action {action_id} is reported when it is requested again")
        if self._results.has_begun(instance_uuid, action_id, ctx.request_id):  # not a later action
            self._results.forget(instance_uuid)

    def _may_begin(self, run: ActionRun) -> bool:
        with self._deciding:
            if run.key in self._refused:
                return False
            self._running[run.instance.uuid] = run
            return True

    def _report_refusal(self, ctx: RequestContext, instance_uuid: str, action_id: int) -> None:
        refused = Result(
            instance_uuid=instance_uuid,
            action_id=action_id,
            power_state=self._power_state_if_known(instance_uuid),
            kind="HostTooSlow",
            untouched=True,
        )
        self._report_failure(ctx, refused, f"it did not begin within {self._time_limit:g} s")

    def _report_interruption(self, ctx: RequestContext, instance_uuid: str, action_id: int) -> None:
        """An earlier process has begun an action whose arguments are stored nowhere, so no request of it comes again."""
        state = self._power_state_if_known(instance_uuid)
        result = Result(instance_uuid=instance_uuid, action_id=action_id, power_state=state, kind="ResultUnknown")
        self._report_failure(ctx, result, "the host was interrupted and does not know whether it was done")
        self._results.forget(instance_uuid)

    def is_unreported(self, instance_uuid: str) -> bool:
        """Whether an action ended here whose result no conductor has received."""
        return self._results.has(instance_uuid)

    def cancel(self, instance_uuid: str) -> None:
        """Cancel the action of an instance that is to be removed: an action that waits for its guest ends at once."""
        self._results.forget(instance_uuid)
        running = self._running.get(instance_uuid)
        if running is not None:
            running.cancelled.set()

    def cancel_before(self, ctx: RequestContext, instance_uuid: str, action_id: int) -> None:
        """Cancel an earlier action because one has come that ends earlier ones: an action that waits for its guest ends
        at once.
        """
        running = self._running.get(instance_uuid)
        if running is None or running.key == ActionKey(instance_uuid, action_id, ctx.request_id):
            return
        # One of the same number is of a history of the database that has ended.
        if running.action_id <= action_id:
            running.cancelled.set()

    def _run(self, ctx: RequestContext, action: ServerAction, action_id: int, run: ActionRun) -> None:
        uuid = run.instance.uuid
        result = self._results.of(uuid, action_id, ctx.request_id) or self._ended_before(ctx, action_id, run.instance)
        if result is None:
            try:
                self._reporter.begin(ctx, uuid, action_id)
            except errors.StaleAttempt as error:
                LOG.info("Instance %s is left as it is: %s", uuid, error)
                return
            self._results.begin(uuid, action_id, ctx.request_id, action.kind)
            time_limit = min(self._time_limit, SECRET_TIMEOUT) if action.secret else self._time_limit
            try:
                with self._progress.during(run, time_limit):
                    result = self._act(action, action_id, run)
            except ActionEnded as error:
                LOG.info("Instance %s is not %s: %s", uuid, action.done, error)
                return
            self._record(ctx, action, run.instance, result)
            self._results.keep(result)
        if result.reason is None:
            self._report_success(ctx, action, result)
        else:
            self._report_failure(ctx, result, result.reason)
        self._results.forget(uuid)

    def _ended_before(self, ctx: RequestContext, action_id: int, instance: Instance) -> Result | None:
        """Returns the result of an action that a restored database requests again, or that it requests of a guest which
        is newer than its row: such a guest is left as it is.
        """
        uuid, record = instance.uuid, self._domains.records.of(instance.uuid)
        if record is None:
            return None
        ended = self._recorded(ctx, uuid, action_id)
        if ended is not None:
            LOG.warning("Action %d of instance %s has ended here before; it is only reported", action_id, uuid)
            return ended
        if instance.attempt < record.attempt:
            reason = (
                f"The guest on {self._host} is newer than the database. To settle it: minova-manage unexpected list"
            )
            state = self._power_state_if_known(uuid)
            return Result(instance_uuid=uuid, action_id=action_id, power_state=state, reason=reason, untouched=True)
        return None

    def _recorded(self, ctx: RequestContext, instance_uuid: str, action_id: int) -> Result | None:
        """Returns the result of an action whose end is recorded beside the guest."""
        ended = self._ended(ctx, instance_uuid, action_id)
        if ended is None:
            return None
        return Result(
            instance_uuid=instance_uuid,
            action_id=action_id,
            power_state=self._power_state_if_known(instance_uuid),
            reason=ended.reason,
            kind=ended.failure,
            untouched=ended.untouched,
            action=ended.kind,
            kept_disks=ended.kept_disks,
        )

    def _ended(self, ctx: RequestContext, instance_uuid: str, action_id: int) -> EndedAction | None:
        record = self._domains.records.of(instance_uuid)
        return record.action(action_id, ctx.request_id) if record is not None else None

    def _record(self, ctx: RequestContext, action: ServerAction, instance: Instance, result: Result) -> None:
        """Records the end of the action beside the guest, before a conductor hears of it."""
        if action.leaves_host and result.reason is None:
            return  # the guest is removed
        after = instance
        if result.reason is None:
            power_state = PowerState(result.power_state or PowerState.NOSTATE)
            vm_state = action.after_success(instance.vm_state)
            after = msgspec.structs.replace(instance, vm_state=vm_state, task_state=None, power_state=power_state)
        ended = EndedAction(
            id=result.action_id,
            request_id=ctx.request_id,
            kind=action.kind,
            vm_state=instance.vm_state.value,
            reason=result.reason,
            failure=result.kind,
            untouched=result.untouched,
            kept_disks=result.kept_disks,
        )
        self._domains.records.ended(after, ended)

    def _act(self, action: ServerAction, action_id: int, run: ActionRun) -> Result:
        """Raises ActionEnded if the action is not wanted any more."""
        uuid = run.instance.uuid
        try:
            power_state = self._operate(action, run)
        except ActionEnded:
            raise
        except Exception as error:
            run.require_wanted()
            LOG.warning(
                "Instance %s could not be %s: %s",
                uuid,
                action.done,
                error,
                exc_info=not isinstance(error, errors.MinovaError),
            )
            return Result(
                instance_uuid=uuid,
                action_id=action_id,
                power_state=self._power_state_if_known(uuid),
                reason=str(error) or type(error).__name__,
                kind=kind_of(error),
                untouched=run.untouched,
                agent_reason=error.agent_reason if isinstance(error, errors.GuestAgentRefused) else "",
                action=action.kind,
                request_id=run.ctx.request_id,
                kept_disks=action.changes_at is not None and not run.has_replaced,
            )
        if not run.is_stale:
            run.require_wanted()
        return Result(
            instance_uuid=uuid,
            action_id=action_id,
            power_state=int(power_state),
            kept=run.kept,
            forced=run.forced,
            hardware=run.hardware,
            action=action.kind,
            request_id=run.ctx.request_id,
        )

    def _operate(self, action: ServerAction, run: ActionRun) -> PowerState:
        """Run the operation; begin it again if it met a busy guest, or if the hypervisor was away meanwhile. Raises the
        errors of the driver, ActionEnded.
        """
        uuid, again = run.instance.uuid, 0
        busy_since: float | None = None
        while True:
            try:
                return self._operations.run(action.kind, run)
            except errors.GuestBusy as error:
                if not action.repeatable:
                    raise
                busy_since = self._busy_since(busy_since, error)
                LOG.info("Instance %s waits to be %s: %s", uuid, action.done, error)
            except errors.HypervisorUnavailable as error:
                again += 1
                if not action.repeatable or again > MOST_AGAIN:
                    raise
                LOG.warning("Instance %s waits for the hypervisor to be %s: %s", uuid, action.done, error)
                self._await_hypervisor(run, error)
            run.untouched = False
            self._repeat.pause(HYPERVISOR_PAUSE)
            run.require_wanted()

    def _busy_since(self, since: float | None, busy: errors.GuestBusy) -> float | None:
        """Returns since when the guest has been busy without a job that its hypervisor names; None: it names one now. Raises
        GuestBusy after the time limit of the action.

        Each try may itself take half a minute, so the clock counts, not the tries.
        """
        if isinstance(busy, errors.GuestJobRuns):
            return None
        now = self._clock()
        if since is None or now - since < self._time_limit:
            return now if since is None else since
        raise errors.GuestBusy(
            f"{busy} (for {now - since:.0f} s; if its QEMU hangs, a hard reboot of the server ends it)"
        ) from busy

    def _await_hypervisor(self, run: ActionRun, lost: errors.HypervisorUnavailable) -> None:
        """Raises `lost` if the hypervisor has not come back within the time limit of the action."""
        until = self._clock() + self._time_limit
        while self._clock() < until:
            try:
                self._power_state(run.instance.uuid)
            except errors.HypervisorUnavailable:
                self._repeat.pause(HYPERVISOR_PAUSE)
                run.require_wanted()
            else:
                return
        raise lost

    def _confirm(self, ctx: RequestContext, instance_uuid: str, action_id: int, step: TaskState | None) -> None:
        """Raises StaleAttempt if the action has ended, ServiceUnavailable if no conductor answers."""
        if step is None:
            ask = lambda: self._reporter.begin(ctx, instance_uuid, action_id, again=True)  # noqa: E731
            self._repeat("begin_action", ask, REPORT_PATIENCE)
        else:
            progressed = lambda: self._reporter.progressed(ctx, instance_uuid, action_id, step.value)  # noqa: E731
            self._repeat("action_progressed", progressed, REPORT_PATIENCE)

    def _report_success(self, ctx: RequestContext, action: ServerAction, result: Result) -> None:
        # A power state that was read before the operation must reach the conductor before the report that ends the
        # action.
        self._power_states.finish_sending()
        uuid, power_state = result.instance_uuid, PowerState(result.power_state or PowerState.NOSTATE)
        report = lambda: self._reporter.succeeded(ctx, result, int(power_state))  # noqa: E731
        self._repeat("action_succeeded", report, REPORT_PATIENCE)
        LOG.info("Instance %s was %s", uuid, action.done)
        for tracker in self._nodes.trackers():
            tracked = tracker.holds(uuid)
            if tracked is not None and action.leaves_host:
                # An audit has counted the instance again from its row before the row was updated.
                self._nodes.release(ctx, uuid)
            elif tracked is not None:
                vm_state = action.after_success(tracked.vm_state)
                tracker.note(
                    msgspec.structs.replace(tracked, vm_state=vm_state, task_state=None, power_state=power_state)
                )

    def _report_failure(self, ctx: RequestContext, result: Result, reason: str) -> None:
        self._repeat("action_failed", lambda: self._reporter.failed(ctx, result, reason), REPORT_PATIENCE)

    def _power_state_if_known(self, instance_uuid: str) -> int | None:
        try:
            power_state = self._power_state(instance_uuid)
        except errors.MinovaError:
            return None
        return None if power_state is None else int(power_state)
