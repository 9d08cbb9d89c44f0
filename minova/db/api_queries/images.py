"""Images as the API reads them."""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import BigInteger, ColumnElement, bindparam, cast, func, select
from sqlalchemy.orm import Session

from minova.db.api_queries import keyset
from minova.db.models import DeletedImage, Image, ImageMember
from minova.db.sql import json_field
from minova.objects.catalogue import image as objects


def _text(name: str) -> ColumnElement[str]:
    return func.coalesce(json_field(Image.value, name), "")


def _number(name: str) -> ColumnElement[int]:
    return func.coalesce(cast(json_field(Image.value, name), BigInteger), 0)


# Columns that are never NULL, so that a page can begin after any row.
SORT_KEYS: dict[str, keyset.SortKey] = {
    "created_at": Image.created_at,
    "updated_at": Image.updated_at,
    "status": Image.status,
    "id": Image.id,
    "name": func.coalesce(Image.name, ""),
    "disk_format": _text("disk_format"),
    "container_format": _text("container_format"),
    "visibility": _text("visibility"),
    "owner": _text("owner"),
    "checksum": _text("checksum"),
    "size": _number("size"),
    "virtual_size": _number("virtual_size"),
    "min_disk": _number("min_disk"),
    "min_ram": _number("min_ram"),
}
Order = Sequence[tuple[str, bool]]
BATCH = 200


# Built once: every creation of a server runs it.
_ONE = select(Image.value, Image.id, Image.status, Image.created_at, Image.updated_at).where(
    Image.id == bindparam("b_id")
)


def image(session: Session, image_id: str) -> objects.Image | None:
    row = session.connection().execute(_ONE, {"b_id": image_id}).one_or_none()
    return None if row is None else _object(row)


class ImageWithMembership(NamedTuple):
    """An image, and the status of a project's membership in the image if the project is a member."""

    image: objects.Image
    member_status: str | None = None


def image_for_project(session: Session, image_id: str, project_id: str) -> ImageWithMembership | None:
    """Returns the image as this project sees it; None if there is no such image."""
    stored_image = image(session, image_id)
    return None if stored_image is None else _as_seen_by(session, [stored_image], project_id)[0]


def _as_seen_by(session: Session, stored_images: Sequence[objects.Image], project_id: str) -> list[ImageWithMembership]:
    shared = [each.id for each in stored_images if each.visibility == "shared" and each.owner != project_id]
    statuses: dict[str, str] = {}
    if shared:
        query = select(ImageMember.image_id, ImageMember.status)
        of_project = query.where(ImageMember.member_id == project_id, ImageMember.image_id.in_(shared))
        statuses = {row[0]: row[1] for row in session.execute(of_project)}
    return [ImageWithMembership(each, statuses.get(each.id)) for each in stored_images]


def images(
    session: Session,
    order: Order,
    marker: str | None,
    *,
    project_id: str,
    is_visible: Callable[[ImageWithMembership], bool],
    names: Sequence[str] | None = None,
    statuses: Sequence[str] | None = None,
) -> Iterator[ImageWithMembership]:
    """Yields images in this order, beginning after `marker`. Reads further pages only as the caller consumes the
    iterator.

    `names`, `statuses`: yields only images with one of these; None: any.
    `is_visible`: whether the caller, which belongs to `project_id`, may see an image.

    Raises LookupError if there is no image `marker` or it is not visible.
    """
    columns = keyset.columns_of(order, SORT_KEYS, Image.id)
    query = keyset.ordered(select(Image, *keyset.selected(columns)), columns)
    if names is not None:
        query = query.where(Image.name.in_(names))
    if statuses is not None:
        query = query.where(Image.status.in_(statuses))
    after: Sequence[Any] | None = None
    if marker is not None:
        last = session.execute(select(Image, *keyset.selected(columns)).where(Image.id == marker)).first()
        if last is None or not is_visible(_as_seen_by(session, [_object(last[0])], project_id)[0]):
            raise LookupError(marker)
        after = last[1:]
    while True:
        page = query if after is None else query.where(keyset.after(after, columns))
        rows = session.execute(page.limit(BATCH)).all()
        yield from _as_seen_by(session, [_object(row[0]) for row in rows], project_id)
        if len(rows) < BATCH:
            return
        after = rows[-1][1:]


def _object(row: Any) -> objects.Image:
    """`row`: of the model, or of `_ONE`. The columns, not the stored value, are authoritative for the id, the status and the times: conditional updates
    compare columns.
    """
    stored: objects.Image = msgspec.structs.replace(
        row.value, id=row.id, status=row.status, created_at=row.created_at, updated_at=row.updated_at
    )
    return stored


def existing_ids(session: Session, image_ids: Collection[str]) -> set[str]:
    """Returns the ids among these that have a record."""
    return set(session.scalars(select(Image.id).where(Image.id.in_(image_ids))))


def changes(session: Session, image_ids: Collection[str]) -> dict[str, tuple[str, datetime]]:
    """Returns {id: (status, time of the last change)} of the images among these that have a record."""
    rows = session.execute(select(Image.id, Image.status, Image.updated_at).where(Image.id.in_(image_ids)))
    return {row.id: (row.status, row.updated_at) for row in rows}


def deleted_ids(session: Session, image_ids: Collection[str]) -> set[str]:
    """Returns the ids among these that belonged to an image which has been deleted."""
    return set(session.scalars(select(DeletedImage.id).where(DeletedImage.id.in_(image_ids)))) if image_ids else set()


def of_service(session: Session, service: str) -> list[objects.Image]:
    """Returns the records of images that another service stores."""
    # All rows at once: PostgreSQL has cursors only in transactions, and reads run without a transaction.
    return [_object(row) for row in session.scalars(select(Image).where(_text("service") == service))]
