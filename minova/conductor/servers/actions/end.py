"""How server actions end: with success, with an error, or because of another action. All that belongs to an end is
written in one transaction.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.network.attachments import Attachments
from minova.conductor.notifications.instances import note, note_image
from minova.conductor.servers import rebuild
from minova.conductor.servers.action_images import (
    PAYLOAD,
    discard_image,
    records_of,
    rotate_backups,
    shelved_columns,
)
from minova.conductor.servers.actions.begin import OF_INTERFACES, BeginActions
from minova.conductor.servers.actions.in_progress import LockedAction
from minova.conductor.servers.finish import announce_hosts, servers_quota
from minova.conductor.tasks.worker import Worker
from minova.db import quotas
from minova.db.models import Task, TaskStep
from minova.db.servers import actions, instances, tasks
from minova.db.servers.instances import LockedInstance
from minova.objects.actions.action import ServerAction
from minova.objects.actions.deletion import RESTORE, SOFT_DELETE
from minova.objects.actions.interfaces import ATTACH_INTERFACE, DETACH_INTERFACE
from minova.objects.actions.power import REBOOT_HARD, REBOOT_SOFT
from minova.objects.actions.power_rules import OFF, STOPS_BY_ITSELF
from minova.objects.actions.rebuild import REBUILD
from minova.objects.actions.shelving import SHELVE_OFFLOAD
from minova.objects.actions.table import BY_KIND
from minova.objects.servers.failures import Failure
from minova.objects.servers.states import RESOURCE_FREE, State, VmState
from minova.placement.allocations import claims

LOG = logging.getLogger(__name__)

FAILED = "ServerActionFailed"
_TERMINATED = frozenset({SOFT_DELETE.kind, RESTORE.kind})
# Nova notifies only of the failures of these actions.
_ERRORS_NOTIFIED = (REBOOT_SOFT, REBOOT_HARD, REBUILD, ATTACH_INTERFACE)


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """An action that ends with its instance in vm_state `after`. `values`: further columns of the instance. `kept`: the
    guest was left as it was.
    """

    locked: LockedAction
    after: VmState
    values: dict[str, Any] = {}
    kept: bool = False


class Transition(NamedTuple):
    """A change of state, with further columns of the instance."""

    before: State
    after: State
    columns: dict[str, Any]


class EndActions:
    def __init__(self, worker: Worker, attachments: Attachments, begins: BeginActions) -> None:
        self._worker = worker
        self._attachments = attachments
        self._begins = begins

    def fail(
        self, session: Session, locked: LockedAction, failure: Failure, after: VmState | None = None, **values: Any
    ) -> None:
        """End the action with an error. `after` None: the instance stays in its vm_state, unless its guest is changed
        already.
        """
        uuid, name = locked.task.instance_uuid, locked.action.name
        vm_state, task_state = locked.instance.state
        if after is None and locked.action.has_changed(task_state):
            after = locked.action.after_failure(vm_state, None)
        details = f"Host {locked.task.host} could not {name} the instance: {failure.details}"
        LOG.warning("Instance %s: %s", uuid, details)
        failed = Failure(kind=failure.kind, details=details, text=f"The server could not {name}. {failure.message}")
        actions.add_faults(session, [uuid], self._worker.at(), msgspec.structs.replace(failed, kind=FAILED))
        if locked.action in _ERRORS_NOTIFIED:
            note(session, f"{locked.action.notification}.error", [uuid], locked.task.host, FAILED, failure.details)
        ending = Ending(locked=locked, after=after or vm_state, values=values)
        self.end_all(session, [ending], failed)

    def end_all(self, session: Session, endings: Sequence[Ending], error: Failure | None = None) -> None:
        """End all actions, with success or with the same error."""
        if not endings:
            return
        at, now = self._worker.at(), self._worker.now()
        changes: list[tuple[Transition, list[str]]] = []
        for ending in endings:
            if not ending.locked.action.progress:
                continue
            columns = _columns_at_end(ending, error, at)
            if error is None:
                columns |= shelved_columns(session, ending.locked.task, ending.locked.instance, ending.after, at)
            change = Transition(ending.locked.instance.state, (ending.after, None), columns)
            alike = next((uuids for known, uuids in changes if known == change), None)
            if alike is None:
                changes.append((change, alike := []))
            alike.append(ending.locked.instance.uuid)
        for change, uuids in changes:
            instances.transition(session, uuids, [change.before], change.after, updated_at=at, **change.columns)
        action_ids = [number for ending in endings for number in records_of(ending.locked.task, waiting=False)]
        actions.end(session, action_ids, at, error=error)
        for ending in endings:
            self._finish(session, ending, error)
        tasks.remove(session, [ending.locked.instance.uuid for ending in endings])
        self._begin_waiting(session, endings)
        shown = {ending.locked.instance.host for ending in endings if _is_shown_by_host_tables(ending)}
        announce_hosts(session, shown, now)
        offloaded = [e.locked.instance.uuid for e in endings if e.after is VmState.SHELVED_OFFLOADED]
        if offloaded:
            claims.release(session, offloaded, now)

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
        rebuild.undo(session, task, instance.state[1], self._worker.at())
        carried: list[int] = []
        if action is REBOOT_HARD:
            # HARD redefines the domain with this interface, so its end shows whether the interface is attached.
            carried = [*PAYLOAD.from_builtins(task.payload).carried]
            if earlier is ATTACH_INTERFACE and task.action_id is not None:
                carried.append(task.action_id)
        ended = [number for number in records_of(task) if number not in carried]
        interrupted = Failure(kind="Interrupted", details=f"{action.name} was requested meanwhile")
        actions.end(session, ended, self._worker.at(), error=interrupted)
        discard_image(session, task)
        tasks.remove(session, [instance.uuid])
        return tuple(carried)

    def _begin_waiting(self, session: Session, endings: Sequence[Ending]) -> None:
        """For each ended action, begin the first detachment that has waited for it."""
        for ending in endings:
            if ending.locked.action.kind in OF_INTERFACES:
                waiting = PAYLOAD.from_builtins(ending.locked.task.payload).waiting
                self._begins.begin_waiting(session, ending.locked.instance, waiting)

    def _finish(self, session: Session, ending: Ending, error: Failure | None) -> None:
        """Keep or release what the action holds beside its task, and notify of its end."""
        locked = ending.locked
        uuid = locked.instance.uuid
        if locked.action is (SOFT_DELETE if error is None else RESTORE):
            quotas.give(session, locked.instance.project_id, servers_quota(session, locked.instance))
        if error is not None:
            rebuild.undo(session, locked.task, locked.instance.state[1], self._worker.at())
            discard_image(session, locked.task)
        else:
            rotate_backups(session, locked.task)
            if locked.action is DETACH_INTERFACE:
                self._attachments.release(session, uuid, locked.port_id)
            elif locked.action.redefines_domain and not ending.kept:
                # The new domain does not have the interfaces of these ports.
                self._attachments.release_pending_delete(session, uuid)
        is_silent = locked.action.ends_in is None or locked.action is SHELVE_OFFLOAD
        if error is None and locked.action.notification and is_silent:
            # For these actions the change of state does not show success, or no longer names the host.
            note(session, f"{locked.action.notification}.end", [uuid], locked.instance.host)
        note_image(session, uuid, PAYLOAD.from_builtins(locked.task.payload).arguments.image_id)


def _columns_at_end(ending: Ending, error: Failure | None, at: datetime) -> dict[str, Any]:
    """Returns the columns of the instance that change with its state."""
    values, action = dict(ending.values), ending.locked.action
    if ending.after in STOPS_BY_ITSELF and values.get("power_state") in OFF:
        # The guest may have shut itself down meanwhile. Its host reports that for every row with another state, and the
        # report stops the instance.
        del values["power_state"]
    if error is None and action.kind in _TERMINATED:
        values["terminated_at"] = at if action is SOFT_DELETE else None
    return values


def _is_shown_by_host_tables(ending: Ending) -> bool:
    """Returns whether host tables show this end: they hold which instances use resources of a host, and their
    images.
    """
    before = ending.locked.instance.state[0]
    return ending.locked.action is REBUILD or (before in RESOURCE_FREE) != (ending.after in RESOURCE_FREE)
