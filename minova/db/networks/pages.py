"""Pages of a listing, in the order of creation or by columns."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Boolean, ColumnElement, Integer, Select, and_, case, exists, func, or_, select
from sqlalchemy.orm import Session

from minova.db import models
from minova.db.networks.tags import TagFilter
from minova.db.networks.tags import conditions as tag_conditions
from minova.objects.servers.states import VmState


class Sort(NamedTuple):
    """`column`: of the table, or one of `_IDS`."""

    column: str
    ascending: bool = True


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """`marker`: the uuid of the last item of the previous page.
    `reverse`: returns the page before the marker, with its items in the same order.
    `sorts`: the most important one first; the order of creation decides between equal rows.
    `changed_since`: only what was changed then or later.
    """

    limit: int
    marker: str | None = None
    reverse: bool = False
    tags: TagFilter = TagFilter()
    sorts: tuple[Sort, ...] = ()
    changed_since: datetime | None = None


# Columns with row ids, whose resources users know by their ids.
_IDS: Mapping[str, Any] = {
    "network_id": models.Network,
    "pool_id": models.SubnetPool,
    "group_id": models.SecurityGroup,
    "remote_group_id": models.SecurityGroup,
}


# Whether the server of a port is active.
_IS_ACTIVE = (
    exists()
    .where(models.Instance.uuid == models.Port.instance_uuid, models.Instance.vm_state == VmState.ACTIVE.value)
    .correlate(models.Port)
)


def rows_of(
    session: Session, seen: Select[Any], table: Any, filters: Mapping[str, Sequence[Any]], page: Page
) -> list[Any]:
    """Returns a page of the rows of `seen` (the rows that the caller may see) that match every filter: {column: allowed
    values}.

    Raises LookupError if the marker is not among `seen`. The error does not reveal whether others have it.
    """
    query = seen
    for column, values in filters.items():
        query = query.where(getattr(table, column).in_(values))
    query = query.where(*tag_conditions(page.tags, table.uuid))
    if page.changed_since is not None:
        query = query.where(table.updated_at >= page.changed_since)
    keys = [*(_sortable(table, sort.column) for sort in page.sorts), table.id]
    upwards = [sort.ascending is not page.reverse for sort in (*page.sorts, Sort("id"))]
    if page.marker is not None:
        at = session.execute(seen.with_only_columns(*keys).where(table.uuid == page.marker)).first()
        if at is None:
            raise LookupError(page.marker)
        query = query.where(_behind(keys, upwards, at))
    order = [key.asc() if up else key.desc() for key, up in zip(keys, upwards, strict=True)]
    rows = list(session.scalars(query.order_by(*order).limit(page.limit)))
    return rows[::-1] if page.reverse else rows


def _behind(keys: Sequence[Any], upwards: Sequence[bool], at: Sequence[Any]) -> ColumnElement[bool]:
    """The condition that a row comes after the row with the values `at`."""
    ways = []
    for number, (key, up) in enumerate(zip(keys, upwards, strict=True)):
        same = [keys[before] == at[before] for before in range(number)]
        ways.append(and_(*same, key > at[number] if up else key < at[number]))
    return or_(*ways)


def _sortable(table: Any, name: str) -> Any:
    """Returns an expression without NULL, which databases sort differently."""
    column = getattr(table, name)
    if name in _IDS:
        referenced = _IDS[name]
        return func.coalesce(
            select(referenced.uuid).where(referenced.id == column).correlate(table).scalar_subquery(), ""
        )
    if table is models.Port and name == "status":  # as it is shown
        return case((_IS_ACTIVE, "ACTIVE"), else_="DOWN")
    if isinstance(column.type, Boolean):
        return case((column, 1), else_=0)
    if not table.__table__.c[name].nullable:
        return column
    return func.coalesce(column, -1 if isinstance(column.type, Integer) else "")
