"""The word of an operator that a host shall remove a guest which the database does not expect there, or a copy that a move has left."""

from datetime import datetime

import msgspec
from sqlalchemy import ColumnElement, insert, select
from sqlalchemy.orm import Session

from minova import errors
from minova.db.models import Instance, PurgedInstance, UnexpectedGuest
from minova.db.recovery import unexpected
from minova.db.servers import instances, migrations
from minova.objects.servers.migration import Hold
from minova.objects.servers.states import PowerState
from minova.objects.unexpected.removal_rules import HAS_NOTHING, DomainVerdict


def remove(session: Session, uuid: str, host: str | None, at: datetime) -> list[str]:
    """Returns the hosts that shall remove the guest: this host, or all hosts that have it unexpectedly. Their next
    reports of guests bring them the decision. A guest without a row that one host has gets a tombstone for this host: the
    guest of another host that has not reported yet may be the genuine one.

    Raises NotFound if no such guest is reported. Raises Conflict if it is the guest of an existing server, which must be
    deleted or adopted instead. A guest that was arriving in a live migration when the database went back in time is removed, unless it
    runs: it has no record, so it cannot be adopted, and its source's guest stands still meanwhile.
    """
    guests = removable_guests(session, uuid, host)
    if not guests and (strays := _strays(session, uuid, host)):
        raise errors.Conflict(
            f"The guest on {' and '.join(strays)} is a copy that a move of server {uuid} has left: shut it down there. It is removed when "
            "the move is confirmed, or once the server's own guest has started"
        )
    if not guests:
        raise errors.NotFound(f"No host reports an unexpected guest {uuid}.")
    row = session.execute(select(Instance.host, Instance.deleted_at).where(Instance.uuid == uuid)).one_or_none()
    for guest in guests:
        is_alive = row is not None and row.deleted_at is None
        if row is not None and is_alive and _is_last(session, uuid, guest.host, row.host):
            raise errors.Conflict(
                f"Host {row.host} of server {uuid} has no guest: the one on {guest.host} may be the last copy. Adopt it, or delete "
                "the server"
            )
        if is_alive and guest.reason == DomainVerdict.NEWER.value and not _cannot_be_adopted(guest):
            raise errors.Conflict(
                f"Server {uuid} exists, and the guest on {guest.host} is newer: adopt the guest, and then delete the server."
            )
    if row is None and len(guests) == 1 and session.get(PurgedInstance, uuid) is None:
        session.connection().execute(insert(PurgedInstance).values(uuid=uuid, purged_at=at, host=guests[0].host))
    for guest in guests:
        unexpected.mark_for_removal(session, uuid, guest.host, at)
    return [guest.host for guest in guests]


def removable_guests(session: Session, uuid: str, host: str | None) -> list[UnexpectedGuest]:
    """Returns what this host, or all hosts, report of the guest, without reports that there is nothing, and copies that moves remove."""
    listed = (guest for guest in unexpected.guests(session, uuid) if host in {None, guest.host})
    return [guest for guest in listed if guest.reason not in {*HAS_NOTHING, DomainVerdict.STRAY}]


def _strays(session: Session, uuid: str, host: str | None) -> list[str]:
    listed = (guest for guest in unexpected.guests(session, uuid) if host in {None, guest.host})
    return [guest.host for guest in listed if guest.reason == DomainVerdict.STRAY.value]


def remove_last_copies(
    session: Session, uuid: str, host: str | None, at: datetime, now: ColumnElement[float]
) -> list[str]:
    """Returns the hosts, of this one or all, that shall remove the copy of the instance's disks which an ended migration has left there,
    and which was held because it may be the last one. A conductor asks them.

    Raises Conflict if the instance has no guest elsewhere.
    """
    instance = instances.lock(session, [uuid]).get(uuid)
    copies = [copy for copy in migrations.last_copies(session, uuid) if host in {None, copy.cleanup_host}]
    for migration in migrations.lock_all(session, [copy.uuid for copy in copies]).values():
        left_at = str(migration.cleanup_host)
        if instance is None or instance.host is None or _is_last(session, uuid, left_at, instance.host):
            raise errors.Conflict(
                f"No host has a guest of server {uuid}: the copy on {left_at} may be the last one. Fetch what you need from it, and "
                "delete the server"
            )
        migrations.write(session, msgspec.structs.replace(migration, hold=Hold.NONE, proven=True), at, now)
    return [str(copy.cleanup_host) for copy in copies]


def _cannot_be_adopted(guest: UnexpectedGuest) -> bool:
    """Whether its host keeps no record of it, and it does not run."""
    return guest.record is None and not guest.mark.has_record and guest.mark.power_state != PowerState.RUNNING


def _is_last(session: Session, uuid: str, host: str, row_host: str | None) -> bool:
    """Whether the host of the row, which is not this host, reports that it does not have the guest."""
    return any(
        other.host == row_host != host and other.reason == DomainVerdict.NO_GUEST.value
        for other in unexpected.guests(session, uuid)
    )
