"""The word of an operator that a host shall remove a guest which the database does not expect there."""

from datetime import datetime

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from minova import errors
from minova.db.models import Instance, PurgedInstance, UnexpectedGuest
from minova.db.recovery import unexpected
from minova.objects.unexpected.removal_rules import HAS_NOTHING, DomainVerdict


def remove(session: Session, uuid: str, host: str | None, at: datetime) -> list[str]:
    """Returns the hosts that shall remove the guest: this host, or all hosts that have it unexpectedly. Their next
    reports of guests bring them the decision. A guest without a row that one host has gets a tombstone for this host: the
    guest of another host that has not reported yet may be the genuine one.

    Raises NotFound if no such guest is reported. Raises Conflict if it is the guest of an existing server, which must be
    deleted or adopted instead.
    """
    listed = (guest for guest in unexpected.guests(session, uuid) if host in {None, guest.host})
    guests = [guest for guest in listed if guest.reason not in HAS_NOTHING]
    if not guests:
        raise errors.NotFound(f"No host reports an unexpected guest {uuid}.")
    row = session.execute(select(Instance.host, Instance.deleted_at).where(Instance.uuid == uuid)).one_or_none()
    for guest in guests:
        is_alive = row is not None and row.deleted_at is None
        if row is not None and is_alive and _is_last(session, guest, row.host):
            raise errors.Conflict(
                f"Host {row.host} of server {uuid} has no guest: the one on {guest.host} may be the last copy. Adopt it, or delete "
                "the server"
            )
        if is_alive and guest.reason == DomainVerdict.NEWER.value:
            raise errors.Conflict(
                f"Server {uuid} exists, and the guest on {guest.host} is newer: adopt the guest, and then delete the server."
            )
    if row is None and len(guests) == 1 and session.get(PurgedInstance, uuid) is None:
        session.connection().execute(insert(PurgedInstance).values(uuid=uuid, purged_at=at, host=guests[0].host))
    for guest in guests:
        unexpected.mark_for_removal(session, uuid, guest.host, at)
    return [guest.host for guest in guests]


def _is_last(session: Session, guest: UnexpectedGuest, row_host: str | None) -> bool:
    """Whether the host of the row reports that it does not have the guest."""
    return any(
        other.host == row_host != guest.host and other.reason == DomainVerdict.NO_GUEST.value
        for other in unexpected.guests(session, guest.uuid)
    )
