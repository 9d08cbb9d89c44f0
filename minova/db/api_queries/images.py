"""Images as the API reads them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import InstrumentedAttribute, Session

from minova.db.api_queries import keyset
from minova.db.models import Image
from minova.objects import image as objects

# Never NULL, so that a page can begin after any row.
SORT_KEYS: dict[str, InstrumentedAttribute[Any]] = {
    "created_at": Image.created_at,
    "updated_at": Image.updated_at,
    "status": Image.status,
    "id": Image.id,
}
Order = Sequence[tuple[str, bool]]
BATCH = 200


def image(session: Session, image_id: str) -> objects.Image | None:
    row = session.get(Image, image_id)
    return None if row is None else _object(row)


def saving(session: Session) -> list[str]:
    """Ids of images whose bytes are said to be coming in."""
    return list(session.scalars(select(Image.id).where(Image.status == "saving")))


def images(
    session: Session,
    order: Order,
    marker: str | None,
    *,
    is_visible: Callable[[objects.Image], bool] = lambda image: True,
    names: Sequence[str] | None = None,
    statuses: Sequence[str] | None = None,
) -> Iterator[objects.Image]:
    """In this order, beginning after `marker`, read as far as it is asked for; of these names and statuses (None: any).

    `is_visible` says whether the caller may know of an image. LookupError: there is no such marker, or it is not visible.
    """
    columns = keyset.columns_of(order, SORT_KEYS, Image.id)
    query = keyset.ordered(select(Image), columns)
    if names is not None:
        query = query.where(Image.name.in_(names))
    if statuses is not None:
        query = query.where(Image.status.in_(statuses))
    last = None if marker is None else session.get(Image, marker)
    if marker is not None and (last is None or not is_visible(_object(last))):
        raise LookupError(marker)
    while True:
        page = query if last is None else query.where(keyset.after(last, columns))
        rows = session.scalars(page.limit(BATCH)).all()
        yield from map(_object, rows)
        if len(rows) < BATCH:
            return
        last = rows[-1]


def _object(row: Image) -> objects.Image:
    """The columns stand beside the value, and are what changes are expected of."""
    return msgspec.structs.replace(
        row.value, id=row.id, status=row.status, created_at=row.created_at, updated_at=row.updated_at
    )
