"""Tells the world what happens to instances, in Nova's `compute.instance.*` notifications, once it is committed.

A transaction gathers what there is to tell: changes of state by themselves, and what is noted beside them. Just before
the commit the instances are read, and after it the notices go out. With no driver configured nothing of this happens.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from oslo_config import cfg
from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from minova.conductor.notifications.payloads import fault, image_name, instance_info, scheduling_failed, state_change
from minova.db.servers import instances, request_specs
from minova.db.servers.instances import RecordingSession, StateChange
from minova.log import bound_context
from minova.notifier import Notice, Notifier
from minova.objects import instance as objects
from minova.objects.server_actions import BY_TASK_STATE
from minova.objects.states import TaskState, VmState

LOG = logging.getLogger(__name__)

# What is noted beside the changes of state; BUILD_FAILED is told as the conductor's own failure, as in Nova.
CREATE_START, CREATE_ERROR, BUILD_FAILED = "create.start", "create.error", "build_instances"
# What a change of state to these is called.
_DELETED, _ACTIVE = VmState.DELETED, (VmState.ACTIVE, None)


class Note(NamedTuple):
    """`host` is where it happens, which the instance's own row may not say yet, or no more."""

    uuid: str
    event: str
    host: str | None
    kind: str = ""
    reason: str = ""


class NotifiedSession(RecordingSession):
    """The session of a transaction of which notifications are made: it records notes beside the changes of state."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.notes: list[Note] = []


def note(
    session: Session, what: str, uuids: Collection[str], host: str | None = None, kind: str = "", reason: str = ""
) -> None:
    """Record an event that is notified after the commit, if notifications are enabled."""
    if isinstance(session, NotifiedSession):
        session.notes.extend(Note(uuid, what, host, kind, reason) for uuid in uuids)


class Notifications:
    """`observe` a transaction, and what it did to instances is told. `clock`: seconds since the epoch."""

    def __init__(self, conf: cfg.ConfigOpts, notifier: Notifier, *, host: str, clock: Callable[[], float]) -> None:
        self._notifier = notifier
        self._host = host
        self._clock = clock
        self._images_url = conf.glance.endpoint_override
        self._on = conf.notifications.notify_on_state_change

    @property
    def observe(self) -> Callable[[NotifiedSession], None] | None:
        """None if notifications are disabled."""
        return self._observe if self._notifier.enabled else None

    def _observe(self, session: NotifiedSession) -> None:
        made: list[Notice] = []
        event.listen(session, "before_commit", lambda one: made.extend(self._made(one)), once=True)
        event.listen(session, "after_commit", lambda _: self._notifier.send(*made), once=True)

    def _made(self, session: NotifiedSession) -> Iterator[Notice]:
        changes, notes = session.state_changes, session.notes
        uuids = {change.uuid for change in changes} | {note.uuid for note in notes}
        known = instances.by_uuids(session, uuids)
        for note in notes:
            yield from self._guarded(note.uuid, lambda one=note: [self._noted(session, one, known[one.uuid])])  # type: ignore[misc]
        for change in changes:
            yield from self._guarded(change.uuid, lambda change=change: self._changed(change, known[change.uuid]))  # type: ignore[misc]

    def _guarded(self, uuid: str, make: Callable[[], Iterable[Notice]]) -> list[Notice]:
        """Nothing where it cannot be made: neither what it tells of nor other notices may fail for that."""
        try:
            return [*make()]
        except SQLAlchemyError:
            raise  # the transaction itself is broken
        except Exception:
            LOG.exception("A notification of instance %s cannot be made", uuid)
            return []

    def _noted(self, session: Session, note: Note, instance: objects.Instance) -> Notice:
        if note.event == BUILD_FAILED:
            spec, _ = request_specs.load(session, [instance.reservation_id])[instance.reservation_id]
            payload = scheduling_failed(instance, spec, note.event, note.reason)
            return self._notice(f"compute_task.{self._host}", "compute_task.build_instances", payload, "error")
        info = instance_info(instance, self._images_url)
        if note.event == CREATE_ERROR:
            return self._of_instance(note.event, note.host, info | fault(note.kind, note.reason), "error")
        return self._of_instance(note.event, note.host, info | {"image_name": image_name(instance)})

    def _changed(self, change: StateChange, instance: objects.Instance) -> Iterator[Notice]:
        info = instance_info(instance, self._images_url)
        before, after = change.before, change.after
        if after == _ACTIVE and before is not None and before[0] is VmState.BUILDING:
            yield self._of_instance("create.end", instance.host, info | {"message": "Success"})
        elif after[1] is TaskState.DELETING and before is not None and before[1] is not TaskState.DELETING:
            yield self._of_instance("delete.start", instance.host, info)
        elif after[0] is _DELETED:
            yield self._of_instance("delete.end", instance.host, info)
        yield from self._action_notices(change, instance, info)
        if self._wants(change):
            fields = state_change(before, after, datetime.fromtimestamp(self._clock()).astimezone())
            yield self._of_instance("update", instance.host, info | fields)

    def _action_notices(
        self, change: StateChange, instance: objects.Instance, info: dict[str, Any]
    ) -> Iterator[Notice]:
        """Server actions, by their task states: begun, or ended well."""
        begun = BY_TASK_STATE.get(change.after[1]) if change.after[1] is not None else None
        ended = (
            BY_TASK_STATE.get(change.before[1]) if change.before is not None and change.before[1] is not None else None
        )
        if begun is not None and begun is not ended:
            yield self._of_instance(f"{begun.notification}.start", instance.host, info)
        elif ended is not None and change.after == (ended.ends_in, None):
            yield self._of_instance(f"{ended.notification}.end", instance.host, info)

    def _wants(self, change: StateChange) -> bool:
        """Nova's notify_on_state_change: unset, vm_state or vm_and_task_state."""
        if self._on is None or change.before == change.after:
            return False
        return self._on == "vm_and_task_state" or change.before is None or change.before[0] is not change.after[0]

    def _of_instance(self, what: str, host: str | None, payload: dict[str, Any], priority: str = "info") -> Notice:
        publisher = f"compute.{host}" if host is not None else f"conductor.{self._host}"
        return self._notice(publisher, f"compute.instance.{what}", payload, priority)

    def _notice(self, publisher: str, event_type: str, payload: dict[str, Any], priority: str) -> Notice:
        return Notice(bound_context(), publisher, event_type, payload, priority)
