"""Instances as the API reads them: one, or a page of many that costs what the page holds."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from minova.db.api_queries import availability_zones, keyset
from minova.db.models import (
    CreateRequest,
    DiagnosisRow,
    Instance,
    InstanceAction,
    InstanceActionEvent,
    InstanceDiagnosis,
    InstanceFault,
)
from minova.db.sql import json_field

# Only columns that are never NULL: a page must be able to begin after any row. Rows are numbered as they are created.
SORT_KEYS: dict[str, InstrumentedAttribute[Any]] = {
    "created_at": Instance.id,
    "display_name": Instance.display_name,
    "uuid": Instance.uuid,
    "vm_state": Instance.vm_state,
    "power_state": Instance.power_state,
    "launch_index": Instance.launch_index,
    "project_id": Instance.project_id,
    "user_id": Instance.user_id,
}


class InstanceFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What is None is not asked. `name_like` is a LIKE pattern, escaped by a backslash; `deleted` None: both kinds."""

    project_id: str | None = None
    user_id: str | None = None
    name_like: str | None = None
    vm_states: tuple[str, ...] | None = None
    task_state: str | None = None
    power_state: int | None = None
    host: str | None = None
    node: str | None = None
    flavorid: str | None = None
    image_ref: str | None = None
    uuid: str | None = None
    reservation_id: str | None = None
    availability_zone: str | None = None
    changed_since: datetime | None = None
    deleted: bool | None = False


def instance(session: Session, uuid: str, project_id: str | None) -> Instance | None:
    """One that is not deleted, of this project (None: of any)."""
    row = session.scalar(select(Instance).where(Instance.uuid == uuid, Instance.deleted_at.is_(None)))
    return row if row is not None and project_id in (None, row.project_id) else None


def instances(
    session: Session,
    wanted: InstanceFilter,
    order: Sequence[tuple[str, bool]],
    marker: str | None,
    limit: int,
    default_zone: str,
) -> Sequence[Instance]:
    """Sorted by `order`: (key of SORT_KEYS, whether descending), then by age. LookupError: there is no such marker."""
    columns = keyset.columns_of(order, SORT_KEYS, Instance.id)
    query = select(Instance).where(*_conditions(wanted))
    if wanted.availability_zone is not None:
        query = query.where(availability_zones.shown(session, wanted.availability_zone, default_zone))
    if marker is not None:
        last = session.scalar(select(Instance).where(Instance.uuid == marker))
        if last is None or wanted.project_id not in (None, last.project_id):
            raise LookupError(marker)
        query = query.where(keyset.after(last, columns))
    return session.scalars(keyset.ordered(query, columns).limit(limit)).all()


def _conditions(wanted: InstanceFilter) -> list[ColumnElement[bool]]:
    equal: list[tuple[InstrumentedAttribute[Any], Any]] = [
        (Instance.project_id, wanted.project_id),
        (Instance.user_id, wanted.user_id),
        (Instance.task_state, wanted.task_state),
        (Instance.power_state, wanted.power_state),
        (Instance.host, wanted.host),
        (Instance.node, wanted.node),
        (Instance.image_ref, wanted.image_ref),
        (Instance.uuid, wanted.uuid),
        (Instance.reservation_id, wanted.reservation_id),
    ]
    conditions: list[ColumnElement[bool]] = [column == value for column, value in equal if value is not None]
    if wanted.deleted is not None:
        conditions.append(Instance.deleted_at.is_not(None) if wanted.deleted else Instance.deleted_at.is_(None))
    if wanted.vm_states is not None:
        conditions.append(Instance.vm_state.in_(wanted.vm_states))
    if wanted.name_like is not None:
        conditions.append(Instance.display_name.ilike(wanted.name_like, escape="\\"))
    if wanted.flavorid is not None:
        conditions.append(json_field(Instance.flavor, "flavorid") == wanted.flavorid)
    if wanted.changed_since is not None:
        conditions.append(func.coalesce(Instance.updated_at, Instance.created_at) >= wanted.changed_since)
    return conditions


def last_faults(session: Session, uuids: Collection[str]) -> dict[str, InstanceFault]:
    """The newest fault of each."""
    if not uuids:
        return {}
    newest = (
        select(func.max(InstanceFault.id))
        .where(InstanceFault.instance_uuid.in_(uuids))
        .group_by(InstanceFault.instance_uuid)
    )
    faults = session.scalars(select(InstanceFault).where(InstanceFault.id.in_(newest)))
    return {fault.instance_uuid: fault for fault in faults}


class Attempt(NamedTuple):
    """One try to build: `result` None while it goes on. `reason` is for administrators, `kind` names it for people."""

    host: str
    result: str | None
    reason: str | None
    kind: str | None
    started_at: datetime
    finished_at: datetime | None


def attempts(session: Session, uuid: str) -> list[Attempt]:
    """In their order."""
    event, action = InstanceActionEvent, InstanceAction
    query = select(event.host, event.result, event.details, event.kind, event.start_time, event.finish_time)
    query = query.join(action, action.id == event.action_id).where(action.instance_uuid == uuid).order_by(event.id)
    return [Attempt(row.host or "", *row[1:]) for row in session.execute(query)]


def has_action(session: Session, uuid: str, action: str, request_id: str) -> bool:
    """Whether that request has begun that action of the instance."""
    model = InstanceAction
    query = select(model.id).where(model.request_id == request_id, model.instance_uuid == uuid, model.action == action)
    return session.scalar(query.limit(1)) is not None


def create_request(session: Session, request_uuid: str, project_id: str) -> CreateRequest | None:
    """What a client's own UUID for a request has made before."""
    return session.get(CreateRequest, (request_uuid, project_id))


def last_diagnosis(session: Session, uuid: str) -> DiagnosisRow | None:
    """The newest decision of the scheduler on this instance."""
    query = select(DiagnosisRow).join(InstanceDiagnosis).where(InstanceDiagnosis.instance_uuid == uuid)
    return session.scalar(query.order_by(DiagnosisRow.id.desc()).limit(1))
