"""Secrets of guests, as they stand in the database: encrypted."""

from collections.abc import Collection, Mapping
from datetime import datetime
from itertools import pairwise

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from minova.db.models import GuestSecret
from minova.errors import Conflict
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


def require_place(session: Session, uuid: str) -> None:
    """Raises Conflict if `set_aside` has no place left. It removes none of the secrets: any of them may be the only one that opens what
    is there.
    """
    secrets = of_instance(session, uuid)
    if any(kind in secrets and _former_names(kind)[-1] in secrets for kind in SecretKind):
        raise Conflict(
            f"{MAX_FORMER} rebuilds of instance {uuid} have failed, and any of their secrets may be the one that opens its disks or its "
            "TPM. Hard reboot the server, save its data, and create another one"
        )


def set_aside(session: Session, uuid: str) -> None:
    """Sets the secrets of a locked instance aside, because its disks are about to be made anew. They stay until `remove_former`, for
    the case of a failure. Raises as `require_place`.
    """
    require_place(session, uuid)
    _remove_kinds(session, [uuid], [TPM_STATE])
    secrets = of_instance(session, uuid)
    for kind in [kind for kind in SecretKind if kind in secrets]:
        for name, older in reversed([*pairwise([kind, *_former_names(kind)])]):
            _rename(session, uuid, name, older)


def put_back(session: Session, uuid: str) -> None:
    """Undo `set_aside`: nothing was encrypted with the secrets that were made since."""
    _remove_kinds(session, [uuid], [*SecretKind])
    for kind in SecretKind:
        for name, older in pairwise([kind, *_former_names(kind)]):
            _rename(session, uuid, older, name)


def _rename(session: Session, uuid: str, kind: str, new_kind: str) -> None:
    of_kind = update(GuestSecret).where(GuestSecret.instance_uuid == uuid, GuestSecret.kind == kind)
    session.connection().execute(of_kind.values(kind=new_kind))


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
    conditions = GuestSecret.instance_uuid.in_(sorted(uuids)), GuestSecret.kind.in_(sorted(kinds))
    session.connection().execute(delete(GuestSecret).where(*conditions))


def remove(session: Session, uuids: Collection[str]) -> None:
    session.connection().execute(delete(GuestSecret).where(GuestSecret.instance_uuid.in_(sorted(uuids))))
