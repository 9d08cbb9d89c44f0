"""Secrets of guests, as they stand in the database: encrypted."""

from collections.abc import Collection, Mapping
from datetime import datetime
from itertools import pairwise

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from minova.db.models import GuestSecret
from minova.objects.guests.guest_secrets import MAX_FORMER, SecretKind

# The kind of a TPM's kept state, and the prefix of the kinds of secrets that a rebuild replaces.
TPM_STATE, FORMER = "tpm-state", "former-"


def of_instance(session: Session, uuid: str) -> dict[str, str]:
    """Returns {kind: encrypted value}."""
    query = select(GuestSecret.kind, GuestSecret.value).where(GuestSecret.instance_uuid == uuid)
    return {row.kind: row.value for row in session.execute(query)}


def write(session: Session, uuid: str, values: Mapping[str, str], at: datetime) -> None:
    """Writes {kind: encrypted value} of an instance that the caller has locked, in place of former values."""
    if not values:
        return
    connection = session.connection()
    connection.execute(
        delete(GuestSecret).where(GuestSecret.instance_uuid == uuid, GuestSecret.kind.in_(sorted(values)))
    )
    rows = [{"instance_uuid": uuid, "kind": kind, "value": value, "created_at": at} for kind, value in values.items()]
    connection.execute(insert(GuestSecret), rows)


def set_aside(session: Session, uuid: str) -> None:
    """What the secrets of a locked instance encrypt is about to be made anew. They stay until `remove_former`, in case it is not."""
    _remove_kinds(session, [uuid], [TPM_STATE])
    secrets = of_instance(session, uuid)
    for kind in [kind for kind in SecretKind if kind in secrets]:
        names = [kind, *_former_names(kind)]
        _remove_kinds(session, [uuid], names[-1:])  # after so many failures
        for name, older in reversed([*pairwise(names)]):
            of_name = update(GuestSecret).where(GuestSecret.instance_uuid == uuid, GuestSecret.kind == name)
            session.connection().execute(of_name.values(kind=older))


def former_kinds(secrets: Mapping[str, str], kind: SecretKind) -> list[str]:
    """Returns the kinds under which secrets of `of_instance` were set aside, the last one first."""
    return [name for name in _former_names(kind) if name in secrets]


def _former_names(kind: SecretKind) -> list[str]:
    return [f"{FORMER}{kind}", *(f"{FORMER}{kind}-{number}" for number in range(2, MAX_FORMER + 1))]


def remove_former(session: Session, uuid: str) -> None:
    _remove_kinds(session, [uuid], [name for kind in SecretKind for name in _former_names(kind)])


def remove_tpm_states(session: Session, uuids: Collection[str]) -> None:
    _remove_kinds(session, uuids, [TPM_STATE])


def _remove_kinds(session: Session, uuids: Collection[str], kinds: Collection[str]) -> None:
    named = GuestSecret.instance_uuid.in_(sorted(uuids)), GuestSecret.kind.in_(sorted(kinds))
    session.connection().execute(delete(GuestSecret).where(*named))


def remove(session: Session, uuids: Collection[str]) -> None:
    session.connection().execute(delete(GuestSecret).where(GuestSecret.instance_uuid.in_(sorted(uuids))))
