"""Removes what is older than its retention, in batches, so that no transaction is long."""

from datetime import datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from minova.db.models import (
    CreateRequest,
    DiagnosisRow,
    Instance,
    InstanceAction,
    InstanceActionEvent,
    InstanceDiagnosis,
    InstanceFault,
    InstanceGroupMember,
    RequestSpecRow,
)


def deleted_instances(session: Session, before: datetime, limit: int) -> list[str]:
    """Instances deleted by then with all that tells of them; answers which."""
    query = select(Instance.uuid, Instance.reservation_id).where(Instance.deleted_at < before)
    rows = session.execute(query.order_by(Instance.deleted_at).limit(limit)).all()
    uuids = [row.uuid for row in rows]
    if not uuids:
        return []
    connection = session.connection()
    actions = select(InstanceAction.id).where(InstanceAction.instance_uuid.in_(uuids))
    connection.execute(delete(InstanceActionEvent).where(InstanceActionEvent.action_id.in_(actions)))
    for model in (InstanceAction, InstanceFault, InstanceGroupMember, InstanceDiagnosis):
        connection.execute(delete(model).where(model.instance_uuid.in_(uuids)))
    connection.execute(delete(Instance).where(Instance.uuid.in_(uuids)))
    _requests(session, {row.reservation_id for row in rows})
    return uuids


def _requests(session: Session, reservations: set[str]) -> None:
    """What is kept for a request goes with the last of its instances."""
    living = select(Instance.reservation_id).where(Instance.reservation_id.in_(reservations))
    over = reservations - set(session.scalars(living))
    for model in (RequestSpecRow, CreateRequest):
        session.connection().execute(delete(model).where(model.reservation_id.in_(over)))


def diagnoses(session: Session, before: datetime, limit: int) -> int:
    """Decisions older than that, with what links them to instances; answers how many."""
    ids = session.scalars(select(DiagnosisRow.id).where(DiagnosisRow.created_at < before).limit(limit)).all()
    if not ids:
        return 0
    result: Any = session.connection().execute(delete(DiagnosisRow).where(DiagnosisRow.id.in_(ids)))
    return int(result.rowcount)
