"""Rows of migrations. `value` holds the whole migration; the other columns are for searches."""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Select, Update, bindparam, exists, func, insert, or_, select, union, update
from sqlalchemy.orm import Session

from minova.backoff import Backoff
from minova.db.clock import for_insert
from minova.db.models import Instance, Migration, UnexpectedGuest
from minova.db.sql import chunked, in_list
from minova.objects.servers.live_migration import LiveProgress
from minova.objects.servers.migration import ENDED, NOT_IN_PROGRESS, Hold, MigrationType
from minova.objects.servers.migration import Migration as MigrationObject

_SEARCHED = (
    "instance_uuid",
    "migration_type",
    "status",
    "source_compute",
    "source_node",
    "dest_compute",
    "dest_node",
    "cleanup_host",
    "hold",
)

_IN_PROGRESS = Migration.status.not_in(sorted(NOT_IN_PROGRESS))
_OPEN = Migration.status.not_in(sorted(ENDED))
_EVACUATED_FROM = (Migration.source_compute == bindparam("host")) & (
    Migration.migration_type == MigrationType.EVACUATION
)
# Built once, as the two below: every audit of every node runs them. Two reads by an index each: not every database uses two indexes for one OR.
_LEAVING = union(
    select(Migration.instance_uuid).where(_EVACUATED_FROM, _OPEN),
    select(Migration.instance_uuid).where(Migration.cleanup_host == bindparam("host")),
)
_EVACUATIONS_FROM = (
    select(Migration.value)
    .where(_EVACUATED_FROM, _OPEN | (Migration.cleanup_host == bindparam("host")))
    .order_by(Migration.id)
)
_IN_PROGRESS_ON = (
    select(Migration.value)
    .where(
        _IN_PROGRESS,
        or_(
            (Migration.source_compute == bindparam("host")) & (Migration.source_node == bindparam("node")),
            (Migration.dest_compute == bindparam("host")) & (Migration.dest_node == bindparam("node")),
        ),
    )
    .order_by(Migration.id)
)
_EXISTS_STILL = exists().where(Instance.uuid == Migration.instance_uuid, Instance.deleted_at.is_(None))
_TABLE: Any = Migration.__table__
# Seconds between two refused confirmations at most.
_LONGEST_WINDOW = 86400.0
_LOCK = select(Migration.value).where(in_list(Migration.uuid)).order_by(Migration.id).with_for_update()


# The database's clock is one expression, made once. Tests use a new expression for each moment.
@lru_cache(16)
def _update(now: ColumnElement[float]) -> Update:
    written = {name: bindparam(f"b_{name}", type_=_TABLE.c[name].type) for name in (*_SEARCHED, "value", "updated_at")}
    return update(_TABLE).where(_TABLE.c.uuid == bindparam("b_uuid")).values(changed_at=now, **written)


def add(session: Session, migration: MigrationObject, at: datetime, now: ColumnElement[float]) -> None:
    new_migration = msgspec.structs.replace(migration, created_at=at, updated_at=at)
    values = {
        "uuid": new_migration.uuid,
        "created_at": at,
        **_columns(new_migration, at),
        "changed_at": for_insert(session, now),
    }
    session.connection().execute(insert(Migration).values(**values))


def find(session: Session, uuid: str) -> MigrationObject | None:
    return session.scalar(select(Migration.value).where(Migration.uuid == uuid))


def lock(session: Session, uuid: str) -> MigrationObject | None:
    """Locks the migration. Lock its instance first."""
    return lock_all(session, [uuid]).get(uuid)


def lock_all(session: Session, uuids: Iterable[str]) -> dict[str, MigrationObject]:
    """Locks and returns the migrations by uuid. Lock their instances first."""
    locked: dict[str, MigrationObject] = {}
    for chunk in chunked(sorted(uuids)):
        locked.update({migration.uuid: migration for migration in session.scalars(_LOCK, {"some": chunk})})
    return locked


def write(session: Session, migration: MigrationObject, at: datetime, now: ColumnElement[float]) -> None:
    """Writes the migration to its locked row."""
    write_all(session, [migration], at, now)


def write_all(session: Session, changed: Iterable[MigrationObject], at: datetime, now: ColumnElement[float]) -> None:
    """Writes the migrations to their locked rows."""
    rows = []
    for migration in changed:
        columns = _columns(msgspec.structs.replace(migration, updated_at=at), at)
        rows.append({"b_uuid": migration.uuid, **{f"b_{name}": value for name, value in columns.items()}})
    session.connection().execute(_update(now), rows if len(rows) > 1 else rows[0])


def in_progress_on(session: Session, host: str, node: str) -> tuple[MigrationObject, ...]:
    """Returns migrations into or out of this node, the oldest first."""
    return tuple(session.connection().execute(_IN_PROGRESS_ON, {"host": host, "node": node}).scalars())


def in_progress_of(session: Session, instance_uuids: Iterable[str]) -> dict[str, MigrationObject]:
    """Returns the newest migration in progress of each instance, by instance uuid."""
    newest: dict[str, MigrationObject] = {}
    for chunk in chunked(sorted(set(instance_uuids))):
        query = select(Migration.value).where(Migration.instance_uuid.in_(chunk), _IN_PROGRESS)
        newest.update(
            {migration.instance_uuid: migration for migration in session.scalars(query.order_by(Migration.id))}
        )
    return newest


def lock_open(session: Session, instance_uuid: str) -> list[MigrationObject]:
    """Locks and returns the migrations of a locked instance that have not ended."""
    return list(session.scalars(_open_of(instance_uuid).with_for_update()))


def find_open(session: Session, instance_uuid: str) -> list[MigrationObject]:
    """As `lock_open`, for a preview: locks nothing."""
    return list(session.scalars(_open_of(instance_uuid)))


def _open_of(instance_uuid: str) -> Select[Any]:
    return select(Migration.value).where(Migration.instance_uuid == instance_uuid, _OPEN).order_by(Migration.id)


def lock_evacuations(session: Session, instance_uuids: Iterable[str]) -> dict[str, MigrationObject]:
    """Locks and returns the open evacuation of each of these locked instances that has one, by instance uuid."""
    locked: dict[str, MigrationObject] = {}
    for chunk in chunked(sorted(instance_uuids)):
        query = select(Migration.value).where(
            Migration.instance_uuid.in_(chunk), Migration.migration_type == MigrationType.EVACUATION, _OPEN
        )
        evacuations = session.scalars(query.order_by(Migration.id).with_for_update())
        locked.update({migration.instance_uuid: migration for migration in evacuations})
    return locked


def evacuated_from(session: Session, host: str) -> list[MigrationObject]:
    """Returns the evacuations from this host that are open, or whose remains are not removed there yet."""
    return list(session.connection().execute(_EVACUATIONS_FROM, {"host": host}).scalars())


def leaving(session: Session, host: str) -> frozenset[str]:
    """Returns the instances that are evacuated from this host, and those of which ended migrations have left something there."""
    return frozenset(session.connection().execute(_LEAVING, {"host": host}).scalars())


def live_before(session: Session, host: str, uuid: str) -> int:
    """Returns how many live migrations from or to this host are in progress, or have waited for longer than this one."""
    own = select(Migration.id).where(Migration.uuid == uuid).scalar_subquery()
    query = select(func.count()).where(
        Migration.migration_type == MigrationType.LIVE_MIGRATION,
        or_(Migration.source_compute == host, Migration.dest_compute == host),
        or_(_IN_PROGRESS, (Migration.status == "queued") & (Migration.id < own)),
        Migration.uuid != uuid,
    )
    return session.scalar(query) or 0


def queued(session: Session) -> list[str]:
    """Returns the instances whose live migrations wait for their turn, in the order of their requests."""
    waiting = (Migration.status == "queued", Migration.migration_type == MigrationType.LIVE_MIGRATION)
    return list(session.scalars(select(Migration.instance_uuid).where(*waiting).order_by(Migration.id)))


def note_progress(session: Session, uuid: str, progress: LiveProgress, at: datetime) -> None:
    statement = update(Migration).where(Migration.uuid == uuid).values(progress=progress, updated_at=at)
    session.connection().execute(statement)


def last_attempt(session: Session, instance_uuid: str) -> int:
    """Returns the highest attempt that any migration of the instance has had; 0 if there is none."""
    migrations = session.scalars(select(Migration.value).where(Migration.instance_uuid == instance_uuid))
    return max((migration.attempt for migration in migrations), default=0)


def unconfirmed(session: Session, now: ColumnElement[float], window: float, limit: int) -> list[MigrationObject]:
    """Returns finished moves that have waited for their confirmation for `window` seconds; for twice as long after each confirmation
    that was refused because the destination had no guest to show.
    """
    pauses = Backoff(first=window, longest=max(window, _LONGEST_WINDOW))
    waits = now - Migration.changed_at
    query = select(Migration.id, Migration.value, waits).where(Migration.status == "finished", waits > window)
    unconfirmed_moves: list[MigrationObject] = []
    after = 0
    while len(unconfirmed_moves) < limit:
        page = session.execute(query.where(Migration.id > after).order_by(Migration.id).limit(limit)).all()
        unconfirmed_moves += [
            migration for _, migration, waited in page if waited > pauses.pause(migration.refused + 1)
        ]
        if len(page) < limit:
            break
        after = page[-1].id
    return unconfirmed_moves[:limit]


def to_clean(session: Session, hosts: Iterable[str], limit: int, *, after: int = 0) -> dict[int, MigrationObject]:
    """Returns by id, in this order, moves that have left something on one of these hosts that may be removed. `after`:
    only those with a higher id. Also those whose guest there has only to be ended.

    The source of an evacuation is not among them: it asks by itself what it has to remove.
    """
    query = select(Migration.id, Migration.value).where(
        Migration.id > after,
        Migration.cleanup_host.in_(sorted(set(hosts))),
        Migration.migration_type != MigrationType.EVACUATION,
        or_(Migration.hold.in_([Hold.NONE.value, Hold.OPEN.value]), ~_EXISTS_STILL),
    )
    return {row[0]: row[1] for row in session.execute(query.order_by(Migration.id).limit(limit))}


def owed_by(session: Session, host: str) -> list[MigrationObject]:
    """Returns the ended migrations that have left something on this host, the oldest first."""
    query = select(Migration.value).where(Migration.cleanup_host == host)
    return list(session.scalars(query.order_by(Migration.id)))


def change_holds(
    session: Session, instance_uuids: Iterable[str], after: Hold, at: datetime, now: ColumnElement[float]
) -> None:
    """Changes what holds the unproven copies of these locked instances. NONE: the row's host has proven its own."""
    for chunk in chunked(sorted(set(instance_uuids))):
        query = select(Migration.value).where(
            Migration.instance_uuid.in_(chunk), Migration.hold.in_([Hold.UNPROVEN.value, Hold.OPEN.value])
        )
        for migration in session.scalars(query.order_by(Migration.id).with_for_update()).all():
            write(session, msgspec.structs.replace(migration, hold=after, proven=after is Hold.NONE), at, now)


def last_copies(session: Session, instance_uuid: str | None = None) -> list[MigrationObject]:
    """Returns the migrations of this instance, or of all, that have left what may be the last copy of its disks. None of deleted ones."""
    is_left = (Migration.hold == Hold.LAST.value, Migration.cleanup_host.is_not(None), _EXISTS_STILL)
    query = select(Migration.value).where(*is_left)
    if instance_uuid is not None:
        query = query.where(Migration.instance_uuid == instance_uuid)
    return list(session.scalars(query.order_by(Migration.id)))


def unclean_hosts(session: Session, instance_uuid: str) -> set[str]:
    """Returns the hosts that have something of this instance besides the guest of its row: what earlier moves have left there, and
    copies of which only an operator can say whether they may go.
    """
    left = select(Migration.cleanup_host).where(
        Migration.instance_uuid == instance_uuid, Migration.cleanup_host.is_not(None)
    )
    unexpected = select(UnexpectedGuest.host).where(UnexpectedGuest.uuid == instance_uuid)
    return {host for host in session.scalars(union(left, unexpected)) if host is not None}


def orphaned(session: Session, limit: int) -> list[MigrationObject]:
    """Returns migrations that have not ended although their instance is gone."""
    query = select(Migration.value).where(_OPEN, ~_EXISTS_STILL)
    return list(session.scalars(query.order_by(Migration.id).limit(limit)))


def _columns(migration: MigrationObject, at: datetime) -> dict[str, Any]:
    searched = {name: getattr(migration, name) for name in _SEARCHED}
    return {**searched, "value": migration, "updated_at": at}
