"""What a request asked for, kept for all its instances; the client's own UUID for it; and what the scheduler decided."""

from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from minova.db.models import CreateRequest, DiagnosisRow, InstanceDiagnosis, RequestSpecRow
from minova.db.sql import chunked
from minova.objects.diagnosis import Diagnosis
from minova.objects.request_spec import RequestSpec


def add(session: Session, reservation_id: str, spec: RequestSpec, carried: dict[str, Any], at: datetime) -> None:
    statement = insert(RequestSpecRow).values(reservation_id=reservation_id, spec=spec, carried=carried, created_at=at)
    session.connection().execute(statement)


class StoredRequest(NamedTuple):
    """A request for servers; `carried` goes to the compute as it is."""

    spec: RequestSpec
    carried: dict[str, Any]


def load(session: Session, reservation_ids: Collection[str]) -> dict[str, StoredRequest]:
    """By reservation id."""
    model = RequestSpecRow
    found = {}
    for chunk in chunked(sorted(set(reservation_ids))):
        query = select(model.reservation_id, model.spec, model.carried).where(model.reservation_id.in_(chunk))
        found.update({row[0]: StoredRequest(row[1], row[2]) for row in session.execute(query)})
    return found


def find_create_request(session: Session, request_uuid: str, project_id: str) -> CreateRequest | None:
    return session.get(CreateRequest, (request_uuid, project_id))


def add_create_request(session: Session, **values: Any) -> None:
    """IntegrityError: the same came in between."""
    session.connection().execute(insert(CreateRequest).values(**values))


def add_diagnoses(session: Session, instance_uuids: Collection[str], diagnosis: Diagnosis, at: datetime) -> None:
    """The record is long, and kept once for all of them."""
    connection = session.connection()
    made: Any = connection.execute(insert(DiagnosisRow).values(value=diagnosis, created_at=at)).inserted_primary_key
    links = [{"instance_uuid": uuid, "diagnosis_id": made[0]} for uuid in instance_uuids]
    connection.execute(insert(InstanceDiagnosis), links)
