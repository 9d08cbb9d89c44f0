"""Migrations as the API reads them, with data of other tables: the instance's owner, the destination's address, ids of
flavors.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Select, and_, case, func, or_, select
from sqlalchemy.orm import Session

from minova import errors
from minova.db.models import ComputeNode, Flavor, Instance, Migration
from minova.db.models.placement import MAX_INT
from minova.db.sql import chunked
from minova.objects.servers.live_migration import LiveProgress
from minova.objects.servers.migration import Migration as MigrationObject
from minova.objects.servers.migration import MigrationType

LIVE = MigrationType.LIVE_MIGRATION.value
# Nova's names while a live migration is in progress: {status of the row: Nova's status}.
LIVE_WORDS = {"pre-migrating": "preparing", "migrating": "running"}
IN_PROGRESS = frozenset({"queued", "preparing", "running", "post-migrating"})
_WORD = case(
    *[(and_(Migration.migration_type == LIVE, Migration.status == own), word) for own, word in LIVE_WORDS.items()],
    else_=Migration.status,
)
_CHANGED_AT = func.coalesce(Migration.updated_at, Migration.created_at)


class MigrationRow(NamedTuple):
    """`status` is Nova's word. A field is None if the instance, or the destination's node, has been removed."""

    id: int
    value: MigrationObject
    status: str
    created_at: datetime
    updated_at: datetime | None
    user_id: str | None
    project_id: str | None
    dest_host_ip: str | None
    progress: LiveProgress | None


class MigrationFilter(msgspec.Struct, frozen=True, kw_only=True):
    """None: any. `host`: the source or the destination. Both bounds of the time of the last change are inclusive."""

    instance_uuid: str | None = None
    host: str | None = None
    source_compute: str | None = None
    status: str | None = None
    migration_type: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    since: datetime | None = None
    before: datetime | None = None


_Rows = Select[
    tuple[int, MigrationObject, str, datetime, datetime | None, str | None, str | None, str | None, LiveProgress | None]
]
_ROWS: _Rows = (
    select(
        Migration.id,
        Migration.value,
        _WORD,
        Migration.created_at,
        Migration.updated_at,
        Instance.user_id,
        Instance.project_id,
        ComputeNode.host_ip,
        Migration.progress,
    )
    .outerjoin(Instance, Instance.uuid == Migration.instance_uuid)
    .outerjoin(
        ComputeNode,
        and_(
            ComputeNode.host == Migration.dest_compute,
            ComputeNode.hypervisor_hostname == Migration.dest_node,
        ),
    )
)


def oldest_first(session: Session, migration_filter: MigrationFilter, limit: int) -> list[MigrationRow]:
    return _read(session, _ROWS.where(*_conditions(migration_filter)).order_by(Migration.id).limit(limit))


def newest_first(
    session: Session, migration_filter: MigrationFilter, marker: str | None, limit: int
) -> list[MigrationRow]:
    """Returns migrations, the newest first. `marker`: the UUID of the last migration of the previous page.

    Raises BadRequest if there is no such migration, or the caller may not see it.
    """
    conditions = _conditions(migration_filter)
    if marker is not None:
        visible = MigrationFilter(project_id=migration_filter.project_id)
        last = _read(session, _ROWS.where(Migration.uuid == marker, *_conditions(visible)))
        if not last:
            raise errors.BadRequest(f"Marker {marker[:64]} could not be found.")
        conditions.append(Migration.id < last[0].id)
    return _read(session, _ROWS.where(*conditions).order_by(Migration.id.desc()).limit(limit))


def live_in_progress(session: Session, instance_uuid: str) -> list[MigrationRow]:
    query = _ROWS.where(
        Migration.instance_uuid == instance_uuid, Migration.migration_type == LIVE, _WORD.in_(sorted(IN_PROGRESS))
    )
    return _read(session, query.order_by(Migration.id))


def find(session: Session, instance_uuid: str, migration_id: int) -> MigrationRow | None:
    if not 0 < migration_id <= MAX_INT:
        return None
    rows = _read(session, _ROWS.where(Migration.instance_uuid == instance_uuid, Migration.id == migration_id))
    return rows[0] if rows else None


def flavor_ids(session: Session, flavorids: Iterable[str]) -> dict[str, int]:
    """Returns {flavorid: number of the row} of those flavors that still exist."""
    row_ids: dict[str, int] = {}
    for some in chunked(sorted(set(flavorids))):
        query = select(Flavor.flavorid, Flavor.id).where(Flavor.flavorid.in_(some))
        row_ids.update({row.flavorid: row.id for row in session.execute(query)})
    return row_ids


def _conditions(migration_filter: MigrationFilter) -> list[ColumnElement[bool]]:
    equal: Sequence[tuple[Any, str | None]] = (
        (Migration.instance_uuid, migration_filter.instance_uuid),
        (Migration.source_compute, migration_filter.source_compute),
        (_WORD, migration_filter.status),
        (Migration.migration_type, migration_filter.migration_type),
        (Instance.user_id, migration_filter.user_id),
        (Instance.project_id, migration_filter.project_id),
    )
    conditions = [column == value for column, value in equal if value is not None]
    if migration_filter.host is not None:
        conditions.append(
            or_(Migration.source_compute == migration_filter.host, Migration.dest_compute == migration_filter.host)
        )
    if migration_filter.since is not None:
        conditions.append(migration_filter.since <= _CHANGED_AT)
    if migration_filter.before is not None:
        conditions.append(migration_filter.before >= _CHANGED_AT)
    return conditions


def _read(
    session: Session,
    query: _Rows,
) -> list[MigrationRow]:
    return [MigrationRow._make(row) for row in session.execute(query)]
