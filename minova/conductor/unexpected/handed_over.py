"""Guests that stand still because their hosts have handed them over to hosts that turned out to have nothing of them.

A migration in progress is judged by its task. If the database went back in time it has lost the migration: the row of the guest is at
rest and names the source, whose guest would stand still for good once an operator has removed the copy at the destination.
"""

from collections.abc import Iterable, Mapping

from sqlalchemy.orm import Session

from minova.conductor.hosts.liveness import HostLiveness
from minova.db.recovery import cloud
from minova.db.recovery.cloud import CloudRecord
from minova.db.servers import migrations
from minova.objects.servers.states import VmState
from minova.objects.unexpected.guest_record import GuestMark
from minova.objects.unexpected.removal_rules import DomainRow


def to_resume(
    session: Session,
    host: str,
    guests: Iterable[GuestMark],
    rows: Mapping[str, DomainRow],
    hosts: HostLiveness,
    history: CloudRecord | None,
) -> tuple[str, ...]:
    """Returns the guests that this host may let go on: no other host has anything of them, and each one that is not fenced has said
    what it has since the database went back.

    A destination that the rows do not know has joined since the backup, and is waited for until it has registered.
    """
    candidates = [
        guest.uuid
        for guest in guests
        if guest.handed_over
        and _is_at_rest(guest, rows.get(guest.uuid), host)
        and guest.handed_over_to in {None, *hosts.known}
    ]
    if not candidates or history is None or not _have_reported(session, hosts, history):
        return ()
    return tuple(uuid for uuid in candidates if not migrations.unclean_hosts(session, uuid) - {host})


def _is_at_rest(guest: GuestMark, row: DomainRow | None, host: str) -> bool:
    if row is None or row.deleted or not row.idle or not row.knows_action:
        return False
    return (row.host, row.attempt, row.vm_state) == (host, guest.attempt, VmState.ACTIVE)


def _have_reported(session: Session, hosts: HostLiveness, history: CloudRecord) -> bool:
    """The restored rows may call a host forced down that was up when it got the guest. But safe mode has ended only after each host that
    the rows know has reported, forced down or not, or an operator has said that it is gone (`recovery --without-host`). No backup says that.
    """
    reported, since = cloud.reported_at(session, cloud.HOST), history.history_since or 0.0
    return all(reported.get(host, -1.0) >= since for host in hosts.known - hosts.fenced)
