"""Subnet pools, and the ranges that subnets have of them: queries and writes."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, exists, insert, or_, select, update
from sqlalchemy.orm import Session

from minova.db import models
from minova.db.networks import tags
from minova.db.networks.pages import Page, rows_of
from minova.db.sql import in_list
from minova.objects.network.subnet_pools import SubnetPool

Row, SubnetRow = models.SubnetPool, models.Subnet
_CHANGING = ("name", "description", "default_prefixlen", "min_prefixlen", "max_prefixlen", "default_quota")
_PLAIN = (*_CHANGING, "project_id", "ip_version", "shared", "revision_number", "created_at", "updated_at")
_LOCK = select(Row).where(in_list(Row.uuid)).order_by(Row.id).with_for_update()


def find(session: Session, uuid: str) -> SubnetPool | None:
    row = session.scalar(select(Row).where(Row.uuid == uuid).execution_options(populate_existing=True))
    return None if row is None else to_object(row)


def default_of(session: Session, ip_version: int) -> SubnetPool | None:
    row = session.scalar(select(Row).where(Row.default_for == ip_version))
    return None if row is None else to_object(row)


def visible(
    session: Session,
    project_id: str | None,
    filters: Mapping[str, Sequence[Any]],
    page: Page,
    *,
    is_default: bool | None = None,
) -> list[SubnetPool]:
    """Returns the pools that a project may use; None: all. `is_default`: only default pools, or only the others. Raises
    LookupError if the marker is unknown.
    """
    query = select(Row)
    if is_default is not None:
        query = query.where(Row.default_for.is_not(None) if is_default else Row.default_for.is_(None))
    if project_id is not None:
        query = query.where(or_(Row.project_id == project_id, Row.shared))
    return [to_object(row) for row in rows_of(session, query, Row, filters, page)]


def lock_several(session: Session, uuids: Collection[str]) -> dict[str, models.SubnetPool]:
    """Locks the pools that exist, and returns them by uuid. Until the transaction ends, no other one gives ranges of
    them.
    """
    if not uuids:
        return {}
    options = {"populate_existing": True}
    return {row.uuid: row for row in session.scalars(_LOCK, {"some": sorted(uuids)}, execution_options=options)}


def ranges_of(session: Session, row_id: int) -> list[tuple[str, str]]:
    """Returns (project, range) of each subnet of the pool."""
    query = select(SubnetRow.project_id, SubnetRow.cidr).where(SubnetRow.pool_id == row_id)
    return [(project_id, cidr) for project_id, cidr in session.execute(query)]


def is_used(session: Session, row_id: int) -> bool:
    return bool(session.scalar(select(exists().where(SubnetRow.pool_id == row_id))))


def add(session: Session, pool: SubnetPool, at: datetime) -> None:
    """Raises IntegrityError if the pool is to be the default one of an IP version that has one."""
    values = {name: getattr(pool, name) for name in (*_CHANGING, "project_id", "ip_version", "shared")}
    times = {"revision_number": 1, "created_at": at, "updated_at": at}
    session.connection().execute(insert(Row).values(uuid=pool.id, **values, **_derived(pool), **times))


def replace(session: Session, pool: SubnetPool, at: datetime) -> bool:
    """Returns False if the pool's revision is no longer `pool.revision_number`. Raises IntegrityError as `add`."""
    values = {name: getattr(pool, name) for name in _CHANGING} | _derived(pool)
    statement = update(Row).where(Row.uuid == pool.id, Row.revision_number == pool.revision_number)
    result: Any = session.connection().execute(
        statement.values(**values, revision_number=pool.revision_number + 1, updated_at=at)
    )
    return bool(result.rowcount)


def _derived(pool: SubnetPool) -> dict[str, Any]:
    return {"prefixes": list(pool.prefixes), "default_for": pool.ip_version if pool.is_default else None}


def remove(session: Session, uuid: str) -> None:
    tags.remove(session, [uuid])
    session.connection().execute(delete(Row).where(Row.uuid == uuid))


def to_object(row: models.SubnetPool) -> SubnetPool:
    return SubnetPool(
        id=row.uuid,
        prefixes=tuple(row.prefixes),
        is_default=row.default_for is not None,
        **{name: getattr(row, name) for name in _PLAIN},
    )
