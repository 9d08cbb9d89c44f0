"""Requested actions on instances and their results: actions, their events, and faults."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import bindparam, func, insert, select, update
from sqlalchemy.orm import Session

from minova.db.models import Instance, InstanceAction, InstanceActionEvent, InstanceFault, Task
from minova.db.servers.instances import state_of
from minova.db.sql import chunked, in_list
from minova.objects.actions.guest_changes import LastAction
from minova.objects.servers.failures import Failure
from minova.objects.servers.states import State

BUILD_EVENT = "build_and_run_instance"
DELETE_EVENT = "compute_terminate_instance"
# As many characters of up to four bytes as fit into MariaDB's TEXT.
LONGEST_REASON = 16_000
LONGEST_KIND = 64

# Built once: every boot ends an action and an event.
_ACTIONS: Any = InstanceAction.__table__
_EVENTS: Any = InstanceActionEvent.__table__
_END = (
    update(_ACTIONS)
    .where(in_list(_ACTIONS.c.id), _ACTIONS.c.finish_time.is_(None))
    .values(
        finish_time=bindparam("b_at"),
        result=bindparam("b_result"),
        message=bindparam("b_text"),
    )
)
_END_EVENTS = (
    update(_EVENTS)
    .where(in_list(_EVENTS.c.action_id), _EVENTS.c.finish_time.is_(None))
    .values(
        finish_time=bindparam("b_at"),
        result=bindparam("b_result"),
        details=func.coalesce(bindparam("b_text", type_=_EVENTS.c.details.type), _EVENTS.c.details),
        kind=bindparam("b_kind"),
    )
)
_BEGIN = insert(_ACTIONS)
_BEGIN_RETURNING = _BEGIN.returning(_ACTIONS.c.instance_uuid, _ACTIONS.c.id)
_INSERT_EVENTS = insert(_EVENTS)
_IN_PROGRESS = (
    select(Task.action_id, Task.kind, Task.step, Task.host, Task.request_id, Instance.vm_state, Instance.task_state)
    .join(Instance, Instance.uuid == Task.instance_uuid)
    .where(Task.instance_uuid == bindparam("of_instance"), Instance.deleted_at.is_(None))
)


class InProgress(NamedTuple):
    """The task and the state of an instance, read by one statement."""

    action_id: int | None
    kind: str
    step: str
    host: str | None
    request_id: str | None
    state: State


class FailedAction(NamedTuple):
    """`event`: of its last attempt."""

    id: int
    event: str | None
    request_id: str


def begin(session: Session, rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Writes actions, one for each instance. Returns {instance uuid: action id}."""
    model = InstanceAction
    if session.get_bind().dialect.insert_executemany_returning:
        written = session.connection().execute(_BEGIN_RETURNING, list(rows))
        return {row[0]: row[1] for row in written}
    session.connection().execute(_BEGIN, list(rows))
    ids, names = {}, {row["action"] for row in rows}
    for chunk in chunked([row["instance_uuid"] for row in rows]):
        query = select(model.instance_uuid, model.id).where(model.instance_uuid.in_(chunk)).order_by(model.id)
        # The newest action of each instance is the one that was just written.
        ids.update({row[0]: row[1] for row in session.execute(query.where(model.action.in_(names)))})
    return ids


class ActionKey(NamedTuple):
    """An action of a request. A request begins an action of an instance once, so this is its key."""

    instance_uuid: str
    request_id: str
    action: str


def already_begun(session: Session, actions: Iterable[ActionKey]) -> set[ActionKey]:
    """Returns those that have been begun: a second delivery of their request must not begin them again.

    The instances must be locked.
    """
    unique_actions, model = set(actions), InstanceAction
    begun_actions: set[ActionKey] = set()
    for some in chunked(sorted({action.request_id for action in unique_actions})):
        query = select(model.instance_uuid, model.request_id, model.action).where(model.request_id.in_(some))
        begun_actions.update(ActionKey(*row) for row in session.execute(query))
    return begun_actions & unique_actions


def in_progress(session: Session, instance_uuid: str) -> InProgress | None:
    """Reads without a lock. Returns None if the instance has no task or is deleted."""
    row = session.execute(_IN_PROGRESS, {"of_instance": instance_uuid}).first()
    if row is None:
        return None
    state = state_of(row.vm_state, row.task_state)
    return InProgress(row.action_id, row.kind, row.step, row.host, row.request_id, state)


def end(
    session: Session, action_ids: Collection[int], at: datetime, *, error: Failure | None = None, event: bool = True
) -> None:
    """Records that the actions succeeded, or failed with `error`. An action stores the error's text for users, an event
    its details.

    The open attempt ends with the same result, unless `event` is False.
    """
    if not action_ids:
        return
    session.connection().execute(_END, _ended(action_ids, at, error.message if error is not None else None))
    if event:
        end_events(session, action_ids, at, error=error)


def explain_wait(session: Session, action_id: int, failure: Failure | None) -> None:
    """Shows in the record of an action in progress, and in its event, why it waits; None: it does not wait any more."""
    text, details = (failure.message, failure.details) if failure is not None else (None, None)
    for model, values in ((InstanceAction, {"message": text}), (InstanceActionEvent, {"details": details})):
        key = InstanceAction.id if model is InstanceAction else InstanceActionEvent.action_id
        statement = update(model).where(key == action_id, model.finish_time.is_(None))
        session.connection().execute(statement.values(values))


def explain_success(session: Session, action_ids: Collection[int], text: str) -> None:
    """Says in the records of actions that have succeeded, and in their events, in which way."""
    for model, values in ((InstanceAction, {"message": text}), (InstanceActionEvent, {"details": text})):
        key = InstanceAction.id if model is InstanceAction else InstanceActionEvent.action_id
        done = (key.in_(sorted(action_ids)), model.result == "Success")
        session.connection().execute(update(model).where(*done).values(values))


def last_of(session: Session, instance_uuids: Collection[str]) -> dict[str, LastAction]:
    """Returns {instance uuid: its newest action}, without those that have none."""
    model, last = InstanceAction, dict[str, LastAction]()
    for chunk in chunked(sorted(instance_uuids)):
        newest = select(func.max(model.id)).where(model.instance_uuid.in_(chunk)).group_by(model.instance_uuid)
        query = select(model.instance_uuid, model.id, model.request_id).where(model.id.in_(newest))
        last.update(
            {
                uuid: LastAction(number=number, request_id=request_id)
                for uuid, number, request_id in session.execute(query)
            }
        )
    return last


def last_failed(session: Session, instance_uuid: str) -> FailedAction | None:
    """Returns the instance's newest action if it has failed."""
    model = InstanceAction
    newest = (
        select(model.id, model.result, model.request_id)
        .where(model.instance_uuid == instance_uuid)
        .order_by(model.id.desc())
    )
    row = session.execute(newest.limit(1)).first()
    if row is None or row.result != "Error":
        return None
    event = select(InstanceActionEvent.event).where(InstanceActionEvent.action_id == row.id)
    last_event = session.scalar(event.order_by(InstanceActionEvent.id.desc()).limit(1))
    return FailedAction(row.id, last_event, row.request_id)


def last_failed_deletion(session: Session, instance_uuid: str) -> int | None:
    """Returns the id of the instance's newest action if it is a deletion that has failed."""
    model = InstanceAction
    newest = select(model.id, model.action, model.result).where(model.instance_uuid == instance_uuid)
    row = session.execute(newest.order_by(model.id.desc()).limit(1)).first()
    return row.id if row is not None and (row.action, row.result) == ("delete", "Error") else None


def reopen(session: Session, action_id: int) -> None:
    """The action has ended in the records, and continued on its host. Its records are in progress again."""
    open_again = {"finish_time": None, "result": None}
    connection = session.connection()
    connection.execute(
        update(InstanceAction).where(InstanceAction.id == action_id).values(open_again | {"message": None})
    )
    of_action = update(InstanceActionEvent).where(InstanceActionEvent.action_id == action_id)
    connection.execute(of_action.values(open_again | {"details": None, "kind": None}))


def initiators(session: Session, uuids: Iterable[str], request_id: str) -> dict[str, tuple[str, str]]:
    """Returns, by instance, the user and the project of the action with this request id."""
    row = InstanceAction
    initiators_by_uuid: dict[str, tuple[str, str]] = {}
    for some in chunked(sorted(uuids)):
        query = select(row.instance_uuid, row.user_id, row.project_id).where(row.request_id == request_id)
        initiators_by_uuid |= {
            uuid: (user_id, project_id)
            for uuid, user_id, project_id in session.execute(query.where(row.instance_uuid.in_(some)))
        }
    return initiators_by_uuid


def begin_events(session: Session, rows: Sequence[Mapping[str, Any]], event: str = BUILD_EVENT) -> None:
    """Records an event for each attempt to build, or for an action on its host.

    Each row holds action_id, host, start_time, and its own `event` if it has one.
    """
    session.connection().execute(_INSERT_EVENTS, [{"event": event, **row} for row in rows])


def add_details(session: Session, action_ids: Collection[int], text: str) -> None:
    """Tells users something about the open events of actions that succeed: their end keeps it."""
    of_actions = _EVENTS.c.action_id.in_(sorted(action_ids)) & _EVENTS.c.finish_time.is_(None)
    session.connection().execute(update(_EVENTS).where(of_actions).values(details=text))


def end_events(session: Session, action_ids: Collection[int], at: datetime, *, error: Failure | None = None) -> None:
    values = _ended(action_ids, at, error.details if error is not None else None)
    values["b_kind"] = _kind(error) if error is not None else None
    session.connection().execute(_END_EVENTS, values)


def _ended(action_ids: Collection[int], at: datetime, error: str | None) -> dict[str, Any]:
    return {
        "some": sorted(action_ids),
        "b_at": at,
        "b_result": "Success" if error is None else "Error",
        "b_text": _storable(error),
    }


def add_failed_event(session: Session, action_id: int, event: str, host: str, at: datetime, failure: Failure) -> None:
    """Records that an attempt of an action failed on a host; the action continues."""
    times = {"start_time": at, "finish_time": at}
    session.connection().execute(
        insert(InstanceActionEvent).values(
            action_id=action_id,
            event=event,
            host=host,
            result="Error",
            details=_storable(failure.details),
            kind=_kind(failure),
            **times,
        )
    )


def _kind(failure: Failure) -> str:
    """Cuts the kind: hosts may send kinds of any length."""
    return failure.kind.replace("\0", "")[:LONGEST_KIND]


def _storable(reason: str | None) -> str | None:
    """Cuts the reason and replaces NULs: hosts may send reasons of any length, PostgreSQL rejects NUL, and neither may
    keep a build from ending.
    """
    return reason and reason.replace("\0", "\N{REPLACEMENT CHARACTER}")[:LONGEST_REASON]


class Requester(NamedTuple):
    """The request that began an action, and its user and project."""

    request_id: str
    user_id: str
    project_id: str


def request_of(session: Session, action_id: int) -> Requester:
    model = InstanceAction
    row = session.execute(select(model.request_id, model.user_id, model.project_id).where(model.id == action_id)).one()
    return Requester(*row)


class FailedAttempt(NamedTuple):
    """`kind` None: an older release has recorded none."""

    host: str
    reason: str
    kind: str | None


def failed_attempts(session: Session, action_id: int) -> list[FailedAttempt]:
    """Returns the failed attempts of an action, in their order."""
    model = InstanceActionEvent
    query = select(model.host, model.details, model.kind).where(model.action_id == action_id, model.result == "Error")
    rows = session.execute(query.order_by(model.id))
    return [FailedAttempt(host or "?", details or "", kind) for host, details, kind in rows]


def add_faults(session: Session, instance_uuids: Collection[str], at: datetime, failure: Failure) -> None:
    """Records the failure and shows it with the instances, until their next action succeeds."""
    values = {"message": _storable(failure.message), "details": _storable(f"{failure.kind}: {failure.details}")}
    values |= {"kind": _kind(failure)}
    rows = [{"instance_uuid": uuid, "code": 500, "created_at": at, **values} for uuid in instance_uuids]
    session.connection().execute(insert(InstanceFault), rows)
    for some in chunked(sorted(instance_uuids)):
        session.connection().execute(update(Instance).where(Instance.uuid.in_(some)).values(has_fault=True))
