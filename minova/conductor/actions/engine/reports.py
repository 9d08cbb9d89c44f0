"""Reports of hosts on server actions. The fence is the id of the action's record: a report on any other action is
stale.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.actions.engine.begin import BACKOFF, BeginActions
from minova.conductor.actions.engine.end import EndActions
from minova.conductor.actions.engine.in_progress import (
    Ending,
    LockedAction,
    ReportedAction,
    is_on,
    lock_all,
    lock_on,
    locked_instance,
)
from minova.conductor.actions.engine.kind import ActionKind
from minova.conductor.actions.engine.payload import ActionPayload
from minova.conductor.notifications.instances import note
from minova.conductor.tasks.group_commit import GroupCommit
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.computes.actions import ActionReportsApi
from minova.db.models import Task, TaskStep
from minova.db.servers import actions, chosen_hardware, state_changes, tasks
from minova.objects.actions.action import ServerAction
from minova.objects.actions.table import ACTIONS, BY_KIND
from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.objects.servers.failures import Failure, said_by_agent
from minova.objects.servers.states import PowerState, TaskState

LOG = logging.getLogger(__name__)
WAITS = "The host does not answer. The action waits for it."
OVERDUE = "The host did not report in time. It is asked to cancel the action."
# By event. Actions that share an event, which is all that the record keeps, differ in whether they define the domain anew. Where both are
# possible, the one that does is taken: it releases the ports that were to be deleted, and the guest of the other one loses nothing.
_ACCEPTED_LATE: Mapping[str, Sequence[ServerAction]] = {
    event: sorted(
        (action for action in ACTIONS if action.accepted_late and action.event == event),
        key=lambda action: not action.redefines_domain,
    )
    for event in {action.event for action in ACTIONS}
}
_RESULT_UNKNOWN = Failure(
    kind="ResultUnknown", details="the host was interrupted and does not know whether it was done"
)


class Success(msgspec.Struct, frozen=True, kw_only=True):
    """The report that a host has done an action. `kept`: the guest was left as it was. `forced`: it was forced off.
    `hardware`: what was chosen for it.
    """

    ctx: RequestContext
    reported: ReportedAction
    power_state: PowerState
    kept: bool = False
    forced: bool = False
    hardware: ChosenHardware | None = None


class ActionReports(ActionReportsApi):
    def __init__(
        self, worker: TaskWorker, kinds: Mapping[str, ActionKind], begins: BeginActions, ends: EndActions
    ) -> None:
        self._worker = worker
        self._kinds = kinds
        self._begins = begins
        self._ends = ends
        self._successes: GroupCommit[Success, None] = GroupCommit(worker, self._succeed_all)

    def begin_action(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        action_id: int,
        host: str,
        again: bool = False,
        request_id: str = "",
    ) -> None:
        reported = ReportedAction(instance_uuid, action_id, host, request_id)

        def work(session: Session) -> bool:
            locked = lock_on(session, reported)
            return locked is not None and self._go_on(session, locked, again=again)

        with self._worker.db.read() as session:
            already_begun = None if again else self._begun_without_writing(session, reported)
        if already_begun is None:
            already_begun = self._worker.run(work)
        if not already_begun:
            raise errors.StaleAttempt(f"Action {action_id} of instance {instance_uuid} is not in progress on {host}")

    def action_progressed(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        action_id: int,
        host: str,
        task_state: str,
        request_id: str = "",
    ) -> None:
        """A step backwards changes no state."""
        reported = ReportedAction(instance_uuid, action_id, host, request_id)

        def work(session: Session) -> bool:
            locked = lock_on(session, reported)
            if locked is None:
                return False
            vm_state, before = locked.instance.state
            progress = locked.action.progress
            if before in progress and task_state in progress[progress.index(before) + 1 :]:
                after, at = (vm_state, TaskState(task_state)), self._worker.at()
                self._note_change(session, locked, after[1])
                state_changes.transition(session, [instance_uuid], [(vm_state, before)], after, updated_at=at)
            self._give_time(session, locked)
            return True

        if not self._worker.run(work):
            raise errors.StaleAttempt(f"Action {action_id} of instance {instance_uuid} is not in progress on {host}")

    def action_succeeded(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        action_id: int,
        host: str,
        power_state: int,
        kept: bool = False,
        forced: bool = False,
        hardware: ChosenHardware | None = None,
        request_id: str = "",
    ) -> None:
        """Reports that arrive at the same time share a transaction."""
        state = _power_state(power_state) or PowerState.NOSTATE
        report = Success(
            ctx=ctx,
            reported=ReportedAction(instance_uuid, action_id, host, request_id),
            power_state=state,
            kept=kept,
            forced=forced,
            hardware=hardware,
        )
        self._successes.run(report)

    def action_failed(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        action_id: int,
        host: str,
        reason: str,
        kind: str = "",
        power_state: int | None = None,
        untouched: bool = False,
        agent_reason: str = "",
        kept_disks: bool = False,
        request_id: str = "",
    ) -> None:
        """The instance returns to its earlier state, or to the one that the action defines."""
        failure = Failure(kind=kind, details=reason, text=said_by_agent(kind, agent_reason))
        state = _power_state(power_state)

        reported = ReportedAction(instance_uuid, action_id, host, request_id)

        def work(session: Session) -> None:
            locked = lock_on(session, reported)
            if locked is not None:
                vm_state, task_state = locked.instance.state
                changed = locked.action.has_changed(task_state)
                as_before = untouched if changed is None else not changed
                after = locked.action.after_failure(vm_state, state, untouched=as_before)
                values = {} if state is None else {"power_state": int(state)}
                self._ends.fail(session, locked, failure, after, untouched=untouched, kept_disks=kept_disks, **values)

        self._worker.run(work)

    def wait_for_host(self, session: Session, locked: LockedAction) -> None:
        """The host of this action is absent, and nothing shows that the action has stopped there. So the action waits: until
        the host is back, or is forced down. Its record says so. Its time begins anew when the host is back.
        """
        details = f"Host {locked.task.host} is down. The action waits until it is back, or is forced down."
        explained = self.explain_wait(session, locked, Failure(kind="HostDown", details=details, text=WAITS))
        changed, time = {"payload": msgspec.to_builtins(explained)}, self._begins.time_for(locked.action)
        tasks.change(session, [(locked.task, changed)], BACKOFF.longest, self._worker.now(), deadline_in=time)

    def explain_wait(self, session: Session, locked: LockedAction, failure: Failure) -> ActionPayload:
        """Say once in the record of the action why it waits. Returns the payload of its task that says so, too."""
        payload = locked.payload
        if payload.waits == failure.kind:
            return payload
        LOG.warning("Instance %s waits to be %s: %s", locked.task.instance_uuid, locked.action.done, failure.details)
        actions.explain_wait(session, locked.task.action_id or 0, failure)
        return msgspec.structs.replace(payload, waits=failure.kind)

    def _begun_without_writing(self, session: Session, reported: ReportedAction) -> bool | None:
        """Returns whether the action is in progress on that host; None if its beginning changes rows, so that a transaction
        has to decide.
        """
        now = actions.in_progress(session, reported.instance_uuid)
        if now is None or (now.action_id, now.host) != (reported.action_id, reported.host):
            return False
        if not reported.is_of(now.request_id):
            return False
        action = BY_KIND.get(now.kind)
        if action is None or now.step != TaskStep.ACTION or not action.is_in_progress(now.state):
            return False
        if self._kinds[action.kind].refused_at_begin:
            return None
        if action.repeatable and len(action.steps(now.state[1], changes=False)) < 2:
            return True
        return None

    def _go_on(self, session: Session, locked: LockedAction, *, again: bool) -> bool:
        """Returns False if the action has begun before and must not be repeated."""
        action, uuid = locked.action, locked.task.instance_uuid
        payload = locked.payload
        kind = self._kinds[action.kind]
        if kind.refused_at_begin:
            try:
                kind.require(session, locked.instance)
            except errors.Conflict as error:
                failure = Failure(kind=kind.refused_at_begin, details=str(error))
                self._ends.fail(session, locked, failure, untouched=True)
                return False
        if not action.repeatable and not again:
            if payload.begun:
                self._ends.fail(session, locked, _RESULT_UNKNOWN)
                return False
            tasks.set_payload(session, locked.task, msgspec.to_builtins(msgspec.structs.replace(payload, begun=True)))
        if action.notification and not (action.progress or again):
            # No change of state notifies of its start.
            note(session, f"{action.notification}.start", [uuid], locked.instance.host)
        if again:
            # The action has waited for an image or for its guest. The rest gets the whole time-out again.
            self._give_time(session, locked)
        vm_state, task_state = locked.instance.state
        steps = action.steps(task_state, changes=again)
        if steps:
            self._note_change(session, locked, steps[-1])
        state_changes.step_through(session, uuid, vm_state, steps, updated_at=self._worker.at())
        return True

    def _note_change(self, session: Session, locked: LockedAction, after: TaskState | None) -> None:
        """`after`: the task state that the instance is about to get."""
        action, before = locked.action, locked.instance.state[1]
        if action.has_changed(after) and not action.has_changed(before):
            self._kinds[action.kind].changes(session, locked)

    def _give_time(self, session: Session, locked: LockedAction) -> None:
        """Restart the action's time-out, because its host is working on it."""
        payload, changed = locked.payload, dict[str, Any]()
        if payload.waits:
            changed["payload"] = msgspec.to_builtins(msgspec.structs.replace(payload, waits=""))
            actions.explain_wait(session, locked.task.action_id or 0, None)
        time = self._begins.time_for(locked.action)
        tasks.change(
            session, [(locked.task, changed)], BACKOFF.pause(payload.asks), self._worker.now(), deadline_in=time
        )

    def _succeed_all(self, session: Session, reports: Sequence[Success]) -> list[None]:
        locked = lock_all(session, {report.reported.instance_uuid for report in reports})
        endings: dict[str, Ending] = {}
        chosen: dict[str, ChosenHardware] = {}
        for report in reports:
            uuid = report.reported.instance_uuid
            done = locked.get(uuid) or self._reopened(session, report.reported)
            if done is None or not is_on(done, report.reported):
                continue
            values = {"power_state": int(report.power_state)}
            after = done.action.after_success(done.instance.state[0])
            endings[uuid] = Ending(locked=done, after=after, values=values, kept=report.kept)
            if report.hardware is not None:
                chosen[uuid] = report.hardware
        self._ends.end_all(session, [*endings.values()])
        chosen_hardware.record(session, chosen, self._worker.at())
        for text, forced in _forced(reports, endings).items():
            actions.explain_success(session, forced, text)
        return [None] * len(reports)

    def _reopened(self, session: Session, report: ReportedAction) -> LockedAction | None:
        """Returns an action that was ended without its host, and that its host has done all the same, if nothing has happened
        to the instance since. Its host was forced down, for example, and was not off.
        """
        uuid = report.instance_uuid
        instance, task = locked_instance(session, uuid), tasks.lock(session, [uuid]).get(uuid)
        failed = actions.last_failed(session, uuid)
        if instance is None or instance.deleted or instance.host != report.host or task is not None or failed is None:
            return None
        action_id, event, request_id = failed
        vm_state, task_state = instance.state
        action = next((each for each in _ACCEPTED_LATE.get(event or "", ()) if vm_state in each.begins_in), None)
        if action is None or action_id != report.action_id or task_state is not None or not report.is_of(request_id):
            return None
        LOG.warning("Instance %s was %s on %s after the action had ended", uuid, action.done, report.host)
        busy = (vm_state, action.progress[0])
        state_changes.transition(session, [uuid], [instance.state], busy, updated_at=self._worker.at())
        actions.reopen(session, action_id)
        again = locked_instance(session, uuid)
        assert again is not None
        done = Task(kind=action.kind, instance_uuid=uuid, action_id=action_id, host=report.host, payload={})
        return LockedAction(action=action, instance=again, task=done)


def _forced(reports: Sequence[Success], endings: Mapping[str, Ending]) -> dict[str, list[int]]:
    """Returns the records of actions that have forced their guests, by what these say of it."""
    action_ids: dict[str, list[int]] = {}
    for report in reports:
        reported = report.reported
        ending = endings.get(reported.instance_uuid)
        if report.forced and ending is not None and ending.locked.task.action_id == reported.action_id:
            action_ids.setdefault(ending.locked.action.forced, []).append(reported.action_id)
    return action_ids


def _power_state(number: int | None) -> PowerState | None:
    """Returns None if there is no number or no such state."""
    return PowerState(number) if number is not None and number in [*PowerState] else None
