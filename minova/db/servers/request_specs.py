"""What a request asked for, kept for all its instances; the client's own UUID for it; and what the scheduler decided."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from minova.db.models import CreateRequest, DiagnosisRow, InstanceDiagnosis, RequestSpecRow
from minova.db.sql import chunked
from minova.objects.diagnosis import Diagnosis
from minova.objects.request_spec import RequestSpec

# Made once: every boot uses them.
_SPECS: Any = RequestSpecRow.__table__
_ADD = insert(_SPECS)
_CREATE_REQUESTS: Any = CreateRequest.__table__
_ADD_CREATE_REQUEST = insert(_CREATE_REQUESTS)
_DIAGNOSES: Any = DiagnosisRow.__table__
_ADD_DIAGNOSIS = insert(_DIAGNOSES)
_LINKS: Any = InstanceDiagnosis.__table__
_ADD_LINKS = insert(_LINKS)


def add(session: Session, specs: Iterable[tuple[str, RequestSpec | None, dict[str, Any]]], at: datetime) -> None:
    """`specs`: (reservation id, spec, carried)."""
    rows = [
        {"reservation_id": reservation_id, "spec": spec, "carried": carried, "created_at": at}
        for reservation_id, spec, carried in specs
    ]
    session.connection().execute(_ADD, rows)


class StoredRequest(NamedTuple):
    """A request for servers; `carried` goes to the compute as it is."""

    spec: RequestSpec
    carried: dict[str, Any]


def load(session: Session, reservation_ids: Collection[str]) -> dict[str, StoredRequest]:
    """By reservation id."""
    model = RequestSpecRow
    requests = {}
    for chunk in chunked(sorted(set(reservation_ids))):
        query = select(model.reservation_id, model.spec, model.carried).where(model.reservation_id.in_(chunk))
        requests.update({row[0]: StoredRequest(row[1], row[2]) for row in session.execute(query)})
    return requests


def find_create_request(session: Session, request_uuid: str, project_id: str) -> CreateRequest | None:
    return session.get(CreateRequest, (request_uuid, project_id))


def add_create_requests(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """IntegrityError: the same came in between."""
    session.connection().execute(_ADD_CREATE_REQUEST, list(rows))


def add_diagnoses(session: Session, diagnosed: Iterable[tuple[Diagnosis, Collection[str]]], at: datetime) -> None:
    """`diagnosed`: records, each with the instances that it is of. A record is long, and kept once for all of them."""
    connection = session.connection()
    links = []
    for diagnosis, instance_uuids in diagnosed:
        if instance_uuids:
            made: Any = connection.execute(_ADD_DIAGNOSIS, {"value": diagnosis, "created_at": at}).inserted_primary_key
            links += [{"instance_uuid": uuid, "diagnosis_id": made[0]} for uuid in instance_uuids]
    connection.execute(_ADD_LINKS, links)
