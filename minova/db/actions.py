"""What was asked of instances and what came of it: actions, their events, and faults."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from minova.db.chunks import chunked
from minova.db.models import InstanceAction, InstanceActionEvent, InstanceFault, Task

BUILD_EVENT = "build_and_run_instance"
# Characters of up to four bytes that MariaDB's TEXT takes.
LONGEST_REASON = 16_000


def begin(session: Session, rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Write actions of one request, one for each instance; answers {instance uuid: action id}."""
    model = InstanceAction
    if session.get_bind().dialect.insert_executemany_returning:
        written = session.connection().execute(insert(model).returning(model.instance_uuid, model.id), list(rows))
        return {row[0]: row[1] for row in written}
    session.connection().execute(insert(model), list(rows))
    found = {}
    for chunk in chunked([row["instance_uuid"] for row in rows]):
        query = select(model.instance_uuid, model.id).where(model.instance_uuid.in_(chunk)).order_by(model.id)
        # The newest of each: this one.
        found.update({row[0]: row[1] for row in session.execute(query.where(model.action == rows[0]["action"]))})
    return found


def of_task(instance_uuid: str) -> Any:
    """The action that the instance's task belongs to, as part of a statement."""
    return select(Task.action_id).where(Task.instance_uuid == instance_uuid).scalar_subquery()


def end(session: Session, action_ids: Any, at: datetime, *, error: str | None = None, event: bool = True) -> None:
    """The actions (their ids, or `of_task`) ended: well, or with `error`.

    The attempt that was open ended likewise, unless `event` is False.
    """
    result = "Success" if error is None else "Error"
    session.connection().execute(
        update(InstanceAction)
        .where(_among(InstanceAction.id, action_ids), InstanceAction.finish_time.is_(None))
        .values(finish_time=at, result=result, message=_kept(error))
    )
    if event:
        end_events(session, action_ids, at, error=error)


def begin_events(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Each row: action_id, host, start_time. One for each attempt to build."""
    session.connection().execute(insert(InstanceActionEvent).values(event=BUILD_EVENT), list(rows))


def end_events(session: Session, action_ids: Any, at: datetime, *, error: str | None = None) -> None:
    model = InstanceActionEvent
    session.connection().execute(
        update(model)
        .where(_among(model.action_id, action_ids), model.finish_time.is_(None))
        .values(finish_time=at, result="Success" if error is None else "Error", details=_kept(error))
    )


def _kept(reason: str | None) -> str | None:
    """Hosts send reasons of any length, and PostgreSQL takes no NUL: neither may keep a build from ending."""
    return reason and reason.replace("\0", "\N{REPLACEMENT CHARACTER}")[:LONGEST_REASON]


def _among(column: Any, action_ids: Any) -> Any:
    return column.in_(sorted(action_ids)) if isinstance(action_ids, Collection) else column == action_ids


def failed_attempts(session: Session, action_id: int) -> list[tuple[str, str]]:
    """(host, reason) of each failed attempt of an action, in their order."""
    model = InstanceActionEvent
    query = select(model.host, model.details).where(model.action_id == action_id, model.result == "Error")
    return [(host or "?", details or "") for host, details in session.execute(query.order_by(model.id))]


def add_faults(session: Session, instance_uuids: Collection[str], at: datetime, message: str, details: str) -> None:
    rows = [
        {"instance_uuid": uuid, "code": 500, "message": _kept(message), "details": details, "created_at": at}
        for uuid in instance_uuids
    ]
    session.connection().execute(insert(InstanceFault), rows)
