"""Pages of a listing in the order of creation."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Select
from sqlalchemy.orm import Session

from minova.db.networks.tags import TagFilter
from minova.db.networks.tags import conditions as tag_conditions


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """`marker`: the uuid of the last item of the previous page.
    `reverse`: returns the page before the marker, with its items in the same order.
    """

    limit: int
    marker: str | None = None
    reverse: bool = False
    tags: TagFilter = TagFilter()


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
    if page.marker is not None:
        at = session.scalar(seen.with_only_columns(table.id).where(table.uuid == page.marker))
        if at is None:
            raise LookupError(page.marker)
        query = query.where(table.id < at if page.reverse else table.id > at)
    order = table.id.desc() if page.reverse else table.id.asc()
    rows = list(session.scalars(query.order_by(order).limit(page.limit)))
    return rows[::-1] if page.reverse else rows
