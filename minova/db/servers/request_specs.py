"""Requests for servers, kept for all their instances; client-supplied UUIDs of requests; and the
scheduler's decisions.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import bindparam, delete, insert, select
from sqlalchemy.orm import Session

from minova.codecs import Decoder
from minova.db.models import CreateRequest, DiagnosisRow, InstanceDiagnosis, RequestSecrets, RequestSpecRow, Task
from minova.db.sql import chunked, in_list
from minova.objects.catalogue.image import Image
from minova.objects.requests.build_extras import BuildExtras
from minova.objects.requests.diagnosis import Diagnosis
from minova.objects.requests.request_spec import RequestSpec

# Built once: every boot uses them.
_SPECS: Any = RequestSpecRow.__table__
_ADD = insert(_SPECS)
_SECRETS: Any = RequestSecrets.__table__
_ADD_SECRETS = insert(_SECRETS)
_STORED = (
    select(RequestSpecRow.reservation_id, RequestSpecRow.spec, RequestSpecRow.carried, RequestSecrets.value)
    .outerjoin(RequestSecrets, RequestSecrets.reservation_id == RequestSpecRow.reservation_id)
    .where(in_list(RequestSpecRow.reservation_id))
)
PASSWORD = "admin_password"
_SECRET = frozenset({PASSWORD, "injected_files"})
_EXTRAS = Decoder(BuildExtras)
_CREATE_REQUESTS: Any = CreateRequest.__table__
_ADD_CREATE_REQUEST = insert(_CREATE_REQUESTS)
_CREATE_REQUEST = select(
    _CREATE_REQUESTS.c.reservation_id, _CREATE_REQUESTS.c.instance_uuids, _CREATE_REQUESTS.c.body_hash
).where(
    _CREATE_REQUESTS.c.request_uuid == bindparam("b_request"), _CREATE_REQUESTS.c.project_id == bindparam("b_project")
)
_DIAGNOSES: Any = DiagnosisRow.__table__
_ADD_DIAGNOSIS = insert(_DIAGNOSES)
_LINKS: Any = InstanceDiagnosis.__table__
_ADD_LINKS = insert(_LINKS)


def add(session: Session, specs: Iterable[tuple[str, RequestSpec | None, BuildExtras]], at: datetime) -> None:
    """`specs`: (reservation id, spec, build extras). Their secret part goes to a table of its own, where
    `forget_secrets` finds it.
    """
    rows, secrets = [], []
    for reservation_id, spec, build_extras in specs:
        values = msgspec.to_builtins(build_extras)
        public = {name: value for name, value in values.items() if name not in _SECRET}
        hidden = {name: values[name] for name in _SECRET if values[name]}
        rows.append({"reservation_id": reservation_id, "spec": spec, "carried": public, "created_at": at})
        if hidden:
            secrets.append({"reservation_id": reservation_id, "value": hidden, "created_at": at})
    session.connection().execute(_ADD, rows)
    if secrets:
        session.connection().execute(_ADD_SECRETS, secrets)


def remove(session: Session, reservation_ids: Collection[str]) -> None:
    """Removes requests of which no more servers will be built."""
    session.connection().execute(
        delete(RequestSpecRow).where(RequestSpecRow.reservation_id.in_(sorted(reservation_ids)))
    )


def forget_secrets(session: Session) -> int:
    """Removes the secrets of requests that have no task left: their servers have been built or given up."""
    over = ~select(Task.id).where(Task.reservation_id == RequestSecrets.reservation_id).exists()
    result: Any = session.connection().execute(delete(RequestSecrets).where(over))
    return int(result.rowcount)


def password_of(session: Session, reservation_id: str) -> str | None:
    """Returns the password as long as it is kept."""
    value = session.scalar(select(RequestSecrets.value).where(RequestSecrets.reservation_id == reservation_id))
    return None if value is None else value.get(PASSWORD)


class StoredRequest(NamedTuple):
    spec: RequestSpec
    build_extras: BuildExtras


def load(session: Session, reservation_ids: Collection[str]) -> dict[str, StoredRequest]:
    """Returns the requests by reservation id."""
    requests = {}
    for chunk in chunked(sorted(set(reservation_ids))):
        for reservation_id, spec, build_extras, secrets in session.connection().execute(_STORED, {"some": chunk}):
            requests[reservation_id] = StoredRequest(spec, _EXTRAS.from_builtins(build_extras | (secrets or {})))
    return requests


def image_of_server(rebuilt: Image | None, spec: RequestSpec | None) -> Image | None:
    """Returns the image that a server has now: that of its last rebuild, else that of its request. `rebuilt`: the column."""
    return rebuilt or (None if spec is None else spec.image)


class EarlierRequest(NamedTuple):
    """A request that has created servers."""

    reservation_id: str
    instance_uuids: list[str]
    body_hash: str


def find_create_request(session: Session, request_uuid: str, project_id: str) -> EarlierRequest | None:
    key = {"b_request": request_uuid, "b_project": project_id}
    row = session.connection().execute(_CREATE_REQUEST, key).first()
    return None if row is None else EarlierRequest._make(row)


def add_create_requests(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Raises IntegrityError if a concurrent request has the same UUID."""
    session.connection().execute(_ADD_CREATE_REQUEST, list(rows))


def add_diagnoses(session: Session, diagnosed: Iterable[tuple[Diagnosis, Collection[str]]], at: datetime) -> None:
    """`diagnosed`: records, each with the instances that it concerns. A record is long, so it is stored once for all of
    them.
    """
    connection = session.connection()
    links = []
    for diagnosis, instance_uuids in diagnosed:
        if instance_uuids:
            primary_key: Any = connection.execute(
                _ADD_DIAGNOSIS, {"value": diagnosis, "created_at": at}
            ).inserted_primary_key
            links += [{"instance_uuid": uuid, "diagnosis_id": primary_key[0]} for uuid in instance_uuids]
    connection.execute(_ADD_LINKS, links)
