"""How server actions end: with success, with an error, or because of another action. All that belongs to an end is
written in one transaction.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.actions.engine.begin import BeginActions
from minova.conductor.actions.engine.in_progress import Ending, LockedAction
from minova.conductor.actions.engine.kind import ActionKind, EveryKind
from minova.conductor.actions.engine.payload import records_of
from minova.conductor.notifications.instances import note, note_image
from minova.conductor.servers.finish import announce_hosts
from minova.conductor.tasks.worker import TaskWorker
from minova.db.models import Task, TaskStep
from minova.db.servers import actions, instances, state_changes, tasks
from minova.db.servers.instances import LockedInstance
from minova.objects.actions.action import ServerAction
from minova.objects.actions.power_rules import OFF, STOPS_BY_ITSELF
from minova.objects.actions.table import BY_KIND
from minova.objects.servers.failures import Failure
from minova.objects.servers.states import RESOURCE_FREE, State, TaskState, VmState
from minova.placement.allocations import claims

LOG = logging.getLogger(__name__)

FAILED = "ServerActionFailed"


class Transition(NamedTuple):
    """A change of state, with further columns of the instance."""

    before: State
    after: State
    columns: dict[str, Any]


class EndActions:
    """`every`: what the families do after the success of actions of any kind."""

    def __init__(
        self, worker: TaskWorker, kinds: Mapping[str, ActionKind], every: Sequence[EveryKind], begins: BeginActions
    ) -> None:
        self._worker = worker
        self._kinds = kinds
        self._every = every
        self._begins = begins

    def fail(
        self,
        session: Session,
        locked: LockedAction,
        failure: Failure,
        after: VmState | None = None,
        *,
        untouched: bool = False,
        kept_disks: bool = False,
        **values: Any,
    ) -> None:
        """End the action with an error. `after` None: the instance stays in its vm_state, unless its guest is changed
        already. `untouched`: its host says that nothing has happened to the guest. `kept_disks`: see `action_failed`.
        """
        self._kinds[locked.action.kind].failed(session, locked, failure, untouched=untouched)
        uuid, done = locked.task.instance_uuid, locked.action.done
        vm_state, task_state = locked.instance.state
        if after is None and locked.action.has_changed(task_state):
            after = locked.action.after_failure(vm_state, None)
        details = f"On host {locked.task.host} the server could not be {done}: {failure.details}"
        LOG.warning("Instance %s: %s", uuid, details)
        failed = Failure(kind=failure.kind, details=details, text=f"The server could not be {done}. {failure.message}")
        actions.add_faults(session, [uuid], self._worker.at(), msgspec.structs.replace(failed, kind=FAILED))
        if locked.action.notifies_errors:
            note(session, f"{locked.action.notification}.error", [uuid], locked.task.host, FAILED, failure.details)
        ending = Ending(locked=locked, after=after or vm_state, values=values, kept_disks=kept_disks)
        self.end_all(session, [ending], failed)

    def end_all(self, session: Session, endings: Sequence[Ending], error: Failure | None = None) -> None:
        """End all actions, with success or with the same error."""
        if not endings:
            return
        at, now = self._worker.at(), self._worker.now()
        changes: list[tuple[Transition, list[str]]] = []
        for ending in endings:
            columns = self._columns_at_end(session, ending, error)
            if not ending.locked.action.progress:
                continue
            change = Transition(ending.locked.instance.state, (ending.after, None), columns)
            alike = next((uuids for other, uuids in changes if other == change), None)
            if alike is None:
                changes.append((change, alike := []))
            alike.append(ending.locked.instance.uuid)
        for change, uuids in changes:
            state_changes.transition(session, uuids, [change.before], change.after, updated_at=at, **change.columns)
        action_ids = [number for ending in endings for number in records_of(ending.locked.task, queued=False)]
        actions.end(session, action_ids, at, error=error)
        for ending in endings:
            self._finish(session, ending, error)
        for each in self._every if error is None else ():
            each.ended(session, endings)
        tasks.remove(session, [ending.locked.instance.uuid for ending in endings])
        changed_hosts = {ending.locked.instance.host for ending in endings if _is_shown_by_host_tables(ending)}
        announce_hosts(session, changed_hosts, now)
        offloaded = [
            ending.locked.instance.uuid for ending in endings if error is None and ending.locked.action.leaves_host
        ]
        if offloaded:
            claims.release(session, offloaded, now)
        self._begin_followers(session, endings, error)

    def interrupt(
        self, session: Session, instance: LockedInstance, action: ServerAction, task: Task | None
    ) -> tuple[int, ...]:
        """End the action in progress if the new action may interrupt it. Raises Conflict if it may not.

        Returns the records of actions that do not end now, but together with the new action.
        """
        if task is None:
            return ()
        earlier = BY_KIND.get(task.kind) if task.step == TaskStep.ACTION else None
        if earlier is None or not action.interrupts(earlier, instance.state[1]):
            raise errors.Conflict(f"Cannot '{action.name}' instance {instance.uuid} while another task is in progress")
        co_ending = self._kinds[action.kind].co_ending_actions(task)
        interrupted = Failure(kind="Interrupted", details=f"the server was to be {action.done} meanwhile")
        self.abandon(session, task, instance.state[1], interrupted, co_ending)
        tasks.remove(session, [instance.uuid])
        return co_ending

    def abandon(
        self,
        session: Session,
        task: Task,
        task_state: TaskState | None,
        failure: Failure,
        except_for: Collection[int] = (),
    ) -> None:
        """End the records of the task, except for these, with the failure, and undo what its action has changed. The
        task itself stays. `task_state`: of its instance.
        """
        ended = [number for number in records_of(task) if number not in except_for]
        actions.end(session, ended, self._worker.at(), error=failure)
        if task.kind in self._kinds:
            self._kinds[task.kind].undo(session, task, task_state)

    def _begin_followers(self, session: Session, endings: Sequence[Ending], error: Failure | None) -> None:
        """Begin, in the same transaction, the actions that follow the ended ones: a crash cannot lose them, and no
        other request comes between.
        """
        following = [
            self._kinds[ending.locked.action.kind].follower(session, ending.locked, error) for ending in endings
        ]
        requests = [request for request in following if request is not None]
        if not requests:
            return
        locked = instances.lock(session, [request.instance_uuid for request in requests])
        messages = self._begins.begin_all(session, requests, locked)
        for request, message in zip(requests, messages, strict=True):
            self._begins.send_when_committed(session, request.ctx, message)

    def _finish(self, session: Session, ending: Ending, error: Failure | None) -> None:
        """Undo the changes of a failed action, and notify of the end of any."""
        action, uuid = ending.locked.action, ending.locked.instance.uuid
        if error is not None:
            task_state = ending.locked.instance.state[1]
            self._kinds[action.kind].undo(session, ending.locked.task, task_state, kept_disks=ending.kept_disks)
        is_silent = action.ends_in is None or action.leaves_host
        if error is None and action.notification and is_silent:
            # For these actions the change of state does not show success, or no longer names the host.
            note(session, f"{action.notification}.end", [uuid], ending.locked.instance.host)
        note_image(session, uuid, ending.locked.payload.arguments.image_id)

    def _columns_at_end(self, session: Session, ending: Ending, error: Failure | None) -> dict[str, Any]:
        """Returns the columns of the instance that change with its state. Releases what the success no longer needs."""
        values, locked = dict(ending.values), ending.locked
        if ending.after in STOPS_BY_ITSELF and values.get("power_state") in OFF:
            # The guest may have shut itself down meanwhile. Its host reports that for every row with another state, and
            # the report stops the instance.
            del values["power_state"]
        if error is None:
            if ending.after is not VmState.ERROR:
                values["has_fault"] = False
            values |= self._kinds[locked.action.kind].succeeded(session, locked, ending.after)
            for each in self._every:
                values |= each.succeeded(session, ending)
        return values


def _is_shown_by_host_tables(ending: Ending) -> bool:
    """Returns whether host tables show this end: they hold which instances use resources of a host, and their
    images.
    """
    before = ending.locked.instance.state[0]
    return ending.locked.action.changes_image or (before in RESOURCE_FREE) != (ending.after in RESOURCE_FREE)
