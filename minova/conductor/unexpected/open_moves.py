"""Ends moves of which hosts know more than a database that went back in time."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.servers.finish import announce_hosts, release_old_size
from minova.db.models import Task, UnexpectedGuest
from minova.db.recovery import unexpected
from minova.db.servers import instances, migrations, state_changes
from minova.objects.servers.migration import Hold, Migration, MigrationType
from minova.objects.unexpected.removal_rules import DomainVerdict
from minova.placement.allocations import claims

# What a migration is once its instance is known to be at its destination.
_ARRIVED = {
    MigrationType.LIVE_MIGRATION: "completed",
    MigrationType.EVACUATION: "done",
    MigrationType.RESIZE: "confirmed",
    MigrationType.MIGRATION: "confirmed",
}


def end(session: Session, uuid: str, host: str, at: datetime, now: Any) -> None:
    """Ends the migrations of a locked instance whose guest was adopted on this host, with its row and without a task. What they
    held is released. The source of a resize or cold migration that has arrived keeps its copy, and the allocation for it,
    until the server's host has started the guest from its own.
    """
    moving = migrations.lock_open(session, uuid)
    if not moving:
        return
    without_copy = unexpected.hosts_without_copy(session, uuid)
    ended_moves = [_ended(migration, host, without_copy) for migration in moving]
    migrations.write_all(session, ended_moves, at, now)
    claims.release(session, [migration.uuid for migration in ended_moves if migration.cleanup_host is None], now)
    announce_hosts(
        session, {each for migration in moving for each in (migration.source_compute, migration.dest_compute)}, now
    )


def _ended(migration: Migration, host: str, without_copy: Collection[str]) -> Migration:
    ended = msgspec.structs.replace(migration, status=_status(migration, host))
    source = migration.source_compute
    if ended.status != "confirmed" or source == migration.dest_compute or source in without_copy:
        return ended
    return msgspec.structs.replace(ended, cleanup_host=source, hold=Hold.UNPROVEN)


def _status(migration: Migration, host: str) -> str:
    if migration.dest_compute == host:
        return _ARRIVED[migration.migration_type]
    return "reverted" if migration.switched and migration.source_compute == host else "error"


def confirm(session: Session, guest: UnexpectedGuest, at: datetime, now: Any) -> None:
    """Confirms the move whose source has no copy any more. Raises Conflict if the move does not wait for that, or its destination
    does not have the guest either, or something works on it.
    """
    locked = instances.lock(session, [guest.uuid]).get(guest.uuid)
    waits = [
        open_move
        for open_move in migrations.lock_open(session, guest.uuid)
        if open_move.status == "finished" and open_move.source_compute == guest.host
    ]
    busy = session.scalar(select(Task.id).where(Task.instance_uuid == guest.uuid))
    if locked is None or locked.deleted or not waits or busy is not None:
        raise errors.Conflict(f"No move of server {guest.uuid} from host {guest.host} waits for a confirmation.")
    for other in unexpected.guests(session, guest.uuid):
        if other.host != guest.host:
            state = (
                "has none either" if other.reason == DomainVerdict.NO_GUEST.value else "has one that is not as expected"
            )
            raise errors.Conflict(
                f"Host {guest.host} has no copy of server {guest.uuid}, and host {other.host} {state}."
            )
    for migration in waits:
        confirmed = msgspec.structs.replace(migration, status="confirmed")
        migrations.write(session, confirmed, at, now)
        release_old_size(session, confirmed, locked.project_id, now)
    after = (waits[-1].vm_state_confirmed(locked.power_state), None)
    state_changes.transition(session, [guest.uuid], [locked.state], after, updated_at=at)
    unexpected.forget_guests(session, guest.host, [guest.uuid])
