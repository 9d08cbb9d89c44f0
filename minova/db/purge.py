"""Deletes records that are older than their retention, in batches, so that no transaction is long."""

from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, delete, func, insert, select
from sqlalchemy.orm import Session

from minova.db.models import (
    CreateRequest,
    DiagnosisRow,
    ExecutedMessage,
    GuestSecret,
    Instance,
    InstanceAction,
    InstanceActionEvent,
    InstanceDiagnosis,
    InstanceFault,
    InstanceGroupMember,
    InstanceTag,
    Migration,
    PurgedInstance,
    RequestSpecRow,
)
from minova.objects.servers.migration import ENDED


class PurgedRows(NamedTuple):
    """`consumers`: the instances and their migrations, which will never claim again."""

    instances: int
    consumers: list[str]


def deleted_instances(session: Session, before: ColumnElement[float], limit: int, at: datetime) -> PurgedRows:
    """Removes instances that were deleted before `before`, with all records about them, unless a host has still to
    remove what a move has left there: the migration holds its allocation.

    Keeps the UUIDs of those that may have a domain on some host: see `PurgedInstance`.
    """
    owed_cleanups = select(Migration.instance_uuid).where(Migration.cleanup_host.is_not(None))
    query = select(Instance.uuid, Instance.reservation_id, Instance.attempt).where(
        Instance.deleted_since < before, Instance.uuid.not_in(owed_cleanups)
    )
    rows = session.execute(query.order_by(Instance.deleted_since).limit(limit)).all()
    uuids = [row.uuid for row in rows]
    if not uuids:
        return PurgedRows(0, [])
    moves = session.scalars(select(Migration.uuid).where(Migration.instance_uuid.in_(uuids))).all()
    connection = session.connection()
    actions = select(InstanceAction.id).where(InstanceAction.instance_uuid.in_(uuids))
    connection.execute(delete(InstanceActionEvent).where(InstanceActionEvent.action_id.in_(actions)))
    for model in (
        InstanceAction,
        InstanceFault,
        InstanceGroupMember,
        InstanceTag,
        InstanceDiagnosis,
        GuestSecret,
        Migration,
    ):
        connection.execute(delete(model).where(model.instance_uuid.in_(uuids)))
    tried = [{"uuid": row.uuid, "purged_at": at} for row in rows if row.attempt]
    if tried:
        connection.execute(insert(PurgedInstance), tried)
    connection.execute(delete(Instance).where(Instance.uuid.in_(uuids)))
    _requests(session, {row.reservation_id for row in rows})
    return PurgedRows(len(uuids), [*uuids, *moves])


def _requests(session: Session, reservations: set[str]) -> None:
    """Removes the records of a request together with the last of its instances."""
    living = select(Instance.reservation_id).where(Instance.reservation_id.in_(reservations))
    over = reservations - set(session.scalars(living))
    for model in (RequestSpecRow, CreateRequest):
        session.connection().execute(delete(model).where(model.reservation_id.in_(over)))


def purged_instances(session: Session, before: datetime, limit: int) -> int:
    """Forgets instances that were purged before `before`. Returns how many."""
    query = select(PurgedInstance.uuid).where(PurgedInstance.purged_at < before).order_by(PurgedInstance.purged_at)
    uuids = session.scalars(query.limit(limit)).all()
    if uuids:
        session.connection().execute(delete(PurgedInstance).where(PurgedInstance.uuid.in_(uuids)))
    return len(uuids)


def executed_messages(session: Session, before: ColumnElement[float], limit: int) -> int:
    """Forgets messages that were executed before `before`. Returns how many."""
    since = ExecutedMessage.executed_since
    ids = session.scalars(select(ExecutedMessage.id).where(since < before).order_by(since).limit(limit)).all()
    if ids:
        session.connection().execute(delete(ExecutedMessage).where(ExecutedMessage.id.in_(ids)))
    return len(ids)


def diagnoses(session: Session, before: datetime, limit: int) -> int:
    """Removes decisions that are older than `before`, and their links to instances. Returns how many."""
    ids = session.scalars(select(DiagnosisRow.id).where(DiagnosisRow.created_at < before).limit(limit)).all()
    if not ids:
        return 0
    result: Any = session.connection().execute(delete(DiagnosisRow).where(DiagnosisRow.id.in_(ids)))
    return int(result.rowcount)


def actions(session: Session, before: datetime, limit: int) -> int:
    """Removes actions that ended before `before`, also those of living instances, with their
    events. Returns how many.

    The newest action of each instance stays: a host compares with it which actions have ended there.
    """
    newest = select(func.max(InstanceAction.id)).group_by(InstanceAction.instance_uuid)
    old = select(InstanceAction.id).where(InstanceAction.finish_time < before, InstanceAction.id.not_in(newest))
    query = old.order_by(InstanceAction.id).limit(limit)
    ids = session.scalars(query).all()
    if ids:
        connection = session.connection()
        connection.execute(delete(InstanceActionEvent).where(InstanceActionEvent.action_id.in_(ids)))
        connection.execute(delete(InstanceAction).where(InstanceAction.id.in_(ids)))
    return len(ids)


def faults(session: Session, before: datetime, limit: int) -> int:
    """Removes faults that are older than `before`. The newest fault of each instance stays: the server shows it."""
    newest = select(func.max(InstanceFault.id)).group_by(InstanceFault.instance_uuid)
    query = select(InstanceFault.id).where(InstanceFault.created_at < before, InstanceFault.id.not_in(newest))
    ids = session.scalars(query.order_by(InstanceFault.id).limit(limit)).all()
    if ids:
        session.connection().execute(delete(InstanceFault).where(InstanceFault.id.in_(ids)))
    return len(ids)


def migrations(session: Session, before: ColumnElement[float], limit: int) -> list[str]:
    """Removes migrations that ended before `before`. Returns their uuids: each is also a consumer. One that has left
    something on a host stays.
    """
    ended = (Migration.status.in_(sorted(ENDED)), Migration.cleanup_host.is_(None))
    query = select(Migration.uuid).where(*ended, Migration.changed_at < before)
    uuids = list(session.scalars(query.order_by(Migration.id).limit(limit)))
    if uuids:
        session.connection().execute(delete(Migration).where(Migration.uuid.in_(uuids)))
    return uuids
