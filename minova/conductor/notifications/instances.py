"""Notifies of what happens to instances, in Nova's formats (unversioned, versioned or both), after the commit.

A transaction collects the events: changes of state automatically, and others by `note`. Just before the commit the
instances are read, and after it the notifications are sent. With no driver configured nothing of this happens.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from oslo_config import cfg
from sqlalchemy import event, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from minova.conductor.notifications import versioned
from minova.conductor.notifications.payloads import fault, image_name, instance_info, scheduling_failed, state_change
from minova.conductor.notifications.versioned import Details
from minova.db.catalogue import key_pairs
from minova.db.engine import when_committed
from minova.db.models import Instance
from minova.db.servers import actions, instances, request_specs, tags
from minova.db.servers.state_changes import RecordingSession, StateChange
from minova.db.sql import chunked
from minova.log import bound_context
from minova.messaging.notifier import Notice, Notifier
from minova.objects.actions.action import ServerAction
from minova.objects.actions.shelving import SHELVE_OFFLOAD, UNSHELVE
from minova.objects.actions.table import BY_TASK_STATE
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers import instance as objects
from minova.objects.servers.states import UNSHELVING_STEPS, State, TaskState, VmState

LOG = logging.getLogger(__name__)

# Events recorded beside the changes of state. As in Nova, BUILD_FAILED is notified as the conductor's own failure.
CREATE_START, CREATE_ERROR, BUILD_FAILED = "create.start", "create.error", "build_instances"
# Of an evacuation that has failed, as of a rebuild.
REBUILD_ERROR = "rebuild.error"
# Only versioned notifications, as in Nova.
LOCK, UNLOCK = "lock", "unlock"
_ONLY_VERSIONED = frozenset((LOCK, UNLOCK, "interface_attach", "interface_detach"))
# Nova's names in unversioned notifications, where they differ from the versioned ones.
_UNVERSIONED = {
    "live_migration_abort": "live.migration.abort",
    "live_migration_force_complete": "live.migration.force.complete",
    "live_migration_post": "live_migration._post",
    "live_migration_post_dest": "live_migration.post.dest",
    "live_migration_pre": "live_migration.pre",
    "live_migration_rollback": "live_migration._rollback",
    "live_migration_rollback_dest": "live_migration.rollback.dest",
    "resize_confirm": "resize.confirm",
    "resize_finish": "finish_resize",
    "resize_prep": "resize.prep",
    "resize_revert": "resize.revert",
}
# Changes to these states are events of their own.
_DELETED, _ACTIVE = VmState.DELETED, (VmState.ACTIVE, None)


class EventNote(NamedTuple):
    """`host` is where the event happens. The instance's own row may not name it yet, or no longer. `new_flavor`: the size that a move
    is about to give it.
    """

    uuid: str
    event: str
    host: str | None
    kind: str = ""
    reason: str = ""
    new_flavor: Flavor | None = None


class Event(NamedTuple):
    """One event of an instance, for both formats.

    `host`: where it happens.
    `more`: further items of the unversioned payload.
    `failure`: kind and text.
    `change`: the states before and after, of an update.
    `only_versioned`: Nova has no unversioned notification for it.
    `new_flavor`: see EventNote.
    """

    what: str
    instance: objects.Instance
    host: str | None
    more: Mapping[str, Any] = MappingProxyType({})
    failure: tuple[str, str] | None = None
    change: tuple[State | None, State] | None = None
    only_versioned: bool = False
    new_flavor: Flavor | None = None


class NotifiedSession(RecordingSession):
    """The session of a transaction whose changes are notified: it records notes and the changes of state.

    `images`: by instance, the image that its action makes or uses.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.notes: list[EventNote] = []
        self.images: dict[str, str] = {}


def note(
    session: Session,
    what: str,
    uuids: Collection[str],
    host: str | None = None,
    kind: str = "",
    reason: str = "",
    new_flavor: Flavor | None = None,
) -> None:
    """Record an event that is notified after the commit, if notifications are enabled."""
    if isinstance(session, NotifiedSession):
        session.notes.extend(EventNote(uuid, what, host, kind, reason, new_flavor) for uuid in uuids)


def note_image(session: Session, uuid: str, image_id: str | None) -> None:
    """Record which image the action of this transaction makes or uses."""
    if isinstance(session, NotifiedSession) and image_id is not None:
        session.images[uuid] = image_id


class InstanceNotifications:
    """`observe` a transaction, and notifications of its changes are sent. `clock`: seconds since the epoch."""

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
        notices: list[Notice] = []
        event.listen(
            session, "before_commit", lambda notified_session: notices.extend(self._made(notified_session)), once=True
        )
        when_committed(session, lambda: self._notifier.send(*notices))

    def _made(self, session: NotifiedSession) -> Iterator[Notice]:
        changes, notes = session.state_changes, session.notes
        uuids = {change.uuid for change in changes} | {note.uuid for note in notes}
        instances_by_uuid = instances.by_uuids(session, uuids)
        details = _details(session, instances_by_uuid) if self._notifier.versioned else {}

        def notices_of(uuid: str, events: Callable[[], Iterable[Event]]) -> list[Notice]:
            return self._guarded(
                uuid, lambda: [notice for event in events() for notice in self._notices(event, details.get(uuid))]
            )

        for event_note in notes:
            if event_note.event == BUILD_FAILED:
                yield from self._guarded(
                    event_note.uuid,
                    lambda event_note=event_note: self._failed(session, event_note, instances_by_uuid[event_note.uuid]),  # type: ignore[misc]
                )
            else:
                yield from notices_of(
                    event_note.uuid,
                    lambda event_note=event_note: [_event_of(event_note, instances_by_uuid[event_note.uuid])],  # type: ignore[misc]
                )
        # A failed evacuation leaves the server as it was, which is the state of a rebuild that is done.
        failed = {note.uuid for note in notes if note.event == REBUILD_ERROR}
        for change in changes:
            events = partial(self._changed, change, instances_by_uuid[change.uuid], has_failed=change.uuid in failed)
            yield from notices_of(change.uuid, events)

    def _guarded(self, uuid: str, make: Callable[[], Iterable[Notice]]) -> list[Notice]:
        """Returns no notification if it cannot be made, because neither its transaction nor other notifications may
        fail for that.
        """
        try:
            return [*make()]
        except SQLAlchemyError:
            raise  # the transaction itself is broken
        except Exception:
            LOG.exception("A notification of instance %s cannot be made", uuid)
            return []

    def _failed(self, session: Session, note: EventNote, instance: objects.Instance) -> Iterator[Notice]:
        """The build has ended in ERROR."""
        spec, _ = request_specs.load(session, [instance.reservation_id])[instance.reservation_id]
        event_type, ctx = f"compute_task.{note.event}", bound_context()
        if self._notifier.unversioned:
            payload = scheduling_failed(instance, spec, note.event, note.reason)
            yield Notice(ctx, f"compute_task.{self._host}", event_type, payload, "error")
        if self._notifier.versioned:
            payload = versioned.scheduling_failed(instance, spec, note.reason)
            publisher = f"nova-conductor:{self._host}"
            yield Notice(ctx, publisher, f"{event_type}.error", payload, "error", versioned=True)

    def _changed(self, change: StateChange, instance: objects.Instance, *, has_failed: bool = False) -> Iterator[Event]:
        before, after = change.before, change.after
        if after == _ACTIVE and before is not None and before[0] is VmState.BUILDING:
            yield Event("create.end", instance, instance.host, {"message": "Success"})
        elif after[1] is TaskState.DELETING and before is not None and before[1] is not TaskState.DELETING:
            yield Event("delete.start", instance, instance.host)
        elif after[0] is _DELETED:
            yield Event("delete.end", instance, instance.host)
        if not has_failed:
            yield from _action_events(change, instance)
        if self._wants(change):
            yield Event("update", instance, instance.host, change=(before, after))

    def _wants(self, change: StateChange) -> bool:
        """Nova's notify_on_state_change: unset, vm_state or vm_and_task_state."""
        if self._on is None or change.before == change.after:
            return False
        return self._on == "vm_and_task_state" or change.before is None or change.before[0] is not change.after[0]

    def _notices(self, event: Event, details: Details | None) -> Iterator[Notice]:
        ctx, priority = bound_context(), "error" if event.failure is not None else "info"
        service, host = ("compute", event.host) if event.host is not None else ("conductor", self._host)
        now = datetime.fromtimestamp(self._clock(), UTC)
        if self._notifier.unversioned and not event.only_versioned:
            payload = {**instance_info(event.instance, self._images_url), **event.more}
            if event.failure is not None:
                payload |= fault(*event.failure)
            if event.change is not None:
                payload |= state_change(*event.change, now)
            yield Notice(ctx, f"{service}.{host}", f"compute.instance.{_unversioned(event.what)}", payload, priority)
        if self._notifier.versioned:
            extra = (details or Details())._replace(new_flavor=event.new_flavor)
            payload = (
                versioned.instance_action(event.what, event.instance, extra, ctx, event.failure)
                if event.change is None
                else versioned.instance_update(event.instance, extra, ctx, event.change, now)
            )
            yield Notice(ctx, f"nova-{service}:{host}", f"instance.{event.what}", payload, priority, versioned=True)


def _event_of(note: EventNote, instance: objects.Instance) -> Event:
    is_versioned = note.event.partition(".")[0] in _ONLY_VERSIONED
    if note.event.endswith(".error"):
        failure = (note.kind, note.reason)
        return Event(note.event, instance, note.host, failure=failure, only_versioned=is_versioned)
    if is_versioned:
        return Event(note.event, instance, instance.host, only_versioned=True)
    more: dict[str, Any] = {}
    if note.event == CREATE_START:
        more = {"image_name": image_name(instance)}
    elif note.new_flavor is not None:
        more = {"new_instance_type": note.new_flavor.name}
    return Event(note.event, instance, note.host, more, new_flavor=note.new_flavor)


def _unversioned(what: str) -> str:
    action, dot, phase = what.partition(".")
    return f"{_UNVERSIONED.get(action, action)}{dot}{phase}"


def _action_events(change: StateChange, instance: objects.Instance) -> Iterator[Event]:
    """Returns the events of server actions that their task states show: begun, or ended well. An action that ends in
    the state in which it began is recorded with `note` at its end.
    """
    begun = _notified(change.after[1])
    if (
        change.before is not None
        and change.before[0] is VmState.SHELVED_OFFLOADED
        and change.before[1] in UNSHELVING_STEPS
    ):
        begun = None  # only another host of the same unshelving
    ended = _notified(change.before[1]) if change.before is not None else None
    if begun is not None and (ended is None or begun.notification != ended.notification):
        yield Event(f"{begun.notification}.start", instance, instance.host)
    elif change.before == (VmState.SHELVED_OFFLOADED, TaskState.SPAWNING) and change.after == _ACTIVE:
        yield Event(f"{UNSHELVE.notification}.end", instance, instance.host)
    elif ended is not None and change.before is not None and _is_done(ended, change.before, change.after):
        yield Event(f"{ended.notification}.end", instance, instance.host)


def _notified(task_state: TaskState | None) -> ServerAction | None:
    """Returns the action to which this task state belongs, if Nova notifies of it."""
    action = BY_TASK_STATE.get(task_state) if task_state is not None else None
    return action if action is not None and action.notification else None


def _details(session: NotifiedSession, instances_by_uuid: Mapping[str, objects.Instance]) -> dict[str, Details]:
    """Returns by instance what only versioned notifications contain."""
    tagged = tags.of_instances(session, instances_by_uuid)
    initiators = actions.initiators(session, instances_by_uuid, bound_context().request_id)
    details: dict[str, Details] = {}
    for uuids in chunked(sorted(instances_by_uuid)):
        columns = (Instance.uuid, Instance.description, Instance.locked_by, Instance.locked_reason)
        for uuid, description, locked_by, reason in session.execute(select(*columns).where(Instance.uuid.in_(uuids))):
            instance = instances_by_uuid[uuid]
            details[uuid] = Details(
                description=description,
                locked=locked_by is not None,
                locked_reason=reason,
                tags=tagged.get(uuid, ()),
                key_pair=key_pairs.find(session, instance.user_id, instance.key_name) if instance.key_name else None,
                image_id=session.images.get(uuid),
                initiator=initiators.get(uuid),
            )
    return details


def _is_done(action: ServerAction, before: State, after: State) -> bool:
    """Returns whether the action has ended well. For a server that has left its host, the end is recorded with `note`,
    with that host.
    """
    return (
        action is not SHELVE_OFFLOAD and action.ends_in is not None and after == (action.after_success(before[0]), None)
    )
