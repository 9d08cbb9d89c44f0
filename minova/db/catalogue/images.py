"""Images as the conductor writes them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.orm import Session

from minova import errors
from minova.db.models import DeletedImage, Image, ImageMember
from minova.db.sql import json_field
from minova.objects.catalogue import image as objects

# The status of an image that Glance stores and that minova still has to delete there.
PENDING_DELETE = "pending_delete"


class IdWasUsed(errors.Conflict):
    """The id belonged to an image that has been deleted."""


def add(session: Session, image: objects.Image, at: datetime) -> objects.Image:
    """Returns the image as stored. Raises IntegrityError if its id is taken, IdWasUsed if a deleted image had this id.

    Inserts the row first: the insert waits for a concurrent deletion, whose `DeletedImage` row is visible afterwards.
    """
    new_image = msgspec.structs.replace(image, created_at=at, updated_at=at)
    values = {"id": new_image.id, "name": new_image.name, "status": new_image.status, "value": new_image}
    session.connection().execute(insert(Image).values(**values, created_at=at, updated_at=at))
    if session.scalar(select(DeletedImage.id).where(DeletedImage.id == new_image.id)) is not None:
        raise IdWasUsed(f"Image {new_image.id} has been deleted.")
    return new_image


def find(session: Session, image_id: str) -> objects.Image | None:
    return session.scalar(select(Image.value).where(Image.id == image_id, Image.status != PENDING_DELETE))


def locked(session: Session, image_id: str) -> objects.Image | None:
    """Locks the row. Returns the image, with the columns' values where they differ from the stored value."""
    query = select(Image.value, Image.status, Image.created_at, Image.updated_at).where(Image.id == image_id)
    row = session.execute(query.with_for_update()).one_or_none()
    if row is None:
        return None
    return msgspec.structs.replace(row[0], status=row[1], created_at=row[2], updated_at=row[3])


def of_owner(session: Session, owner: str | None, properties: Mapping[str, str]) -> list[objects.Image]:
    """Returns the images of this project that have all of these properties."""
    owned = func.coalesce(json_field(Image.value, "owner"), "") == (owner or "")
    query = select(Image.value).where(owned, Image.status != PENDING_DELETE)
    images = session.scalars(query.execution_options(yield_per=1000))
    return [image for image in images if properties.items() <= image.properties.items()]


def replace(session: Session, image: objects.Image, expected_status: str, at: datetime) -> objects.Image | None:
    """Returns the image as stored; None if there is no such image with the expected status. `created_at` does not
    change.
    """
    created_at = session.scalar(select(Image.created_at).where(Image.id == image.id))
    updated_image = msgspec.structs.replace(image, created_at=created_at, updated_at=at)
    statement = (
        update(Image)
        .where(Image.id == image.id, Image.status == expected_status)
        .values(name=updated_image.name, status=updated_image.status, value=updated_image, updated_at=at)
    )
    result: Any = session.connection().execute(statement)
    return updated_image if result.rowcount else None


def remove(session: Session, image_id: str) -> bool:
    """Returns whether there was such an image. Its id is never used again.

    An image that another service stores is only marked: minova-api must delete it there first.
    """
    image = session.scalar(select(Image.value).where(Image.id == image_id))
    if image is None or not image.service:
        return forget(session, image_id)
    value = msgspec.structs.replace(image, status=PENDING_DELETE)
    statement = update(Image).where(Image.id == image_id, Image.status != PENDING_DELETE)
    result: Any = session.connection().execute(statement.values(status=PENDING_DELETE, value=value))
    return bool(result.rowcount)


def forget(session: Session, image_id: str) -> bool:
    """Removes the record, whichever service stores the image. Returns whether there was one."""
    result: Any = session.connection().execute(delete(Image).where(Image.id == image_id))
    if result.rowcount and session.get(DeletedImage, image_id) is None:
        # The row exists already if a conductor of the last release has created the image under a used id.
        session.connection().execute(insert(DeletedImage).values(id=image_id))
    if result.rowcount:
        # Delete members after the image: deleting the image waits for a transaction that is adding a member.
        session.connection().execute(delete(ImageMember).where(ImageMember.image_id == image_id))
    return bool(result.rowcount)


# -- members -----------------------------------------------------------------------------------------------------------


def members(session: Session, image_id: str) -> tuple[objects.ImageMember, ...]:
    query = select(ImageMember).where(ImageMember.image_id == image_id).order_by(ImageMember.member_id)
    return tuple(_member(row) for row in session.scalars(query))


def member(session: Session, image_id: str, member_id: str) -> objects.ImageMember | None:
    query = select(ImageMember).where(ImageMember.image_id == image_id, ImageMember.member_id == member_id)
    row = session.scalar(query)
    return None if row is None else _member(row)


def add_member(session: Session, image_id: str, member_id: str, at: datetime) -> objects.ImageMember:
    new_member = objects.ImageMember(image_id=image_id, member_id=member_id, created_at=at, updated_at=at)
    session.connection().execute(insert(ImageMember).values(**msgspec.structs.asdict(new_member)))
    return new_member


def set_member_status(session: Session, image_id: str, member_id: str, status: str, at: datetime) -> bool:
    """Returns whether there is such a member."""
    of_member = (ImageMember.image_id == image_id, ImageMember.member_id == member_id)
    result: Any = session.connection().execute(
        update(ImageMember).where(*of_member).values(status=status, updated_at=at)
    )
    return bool(result.rowcount)


def remove_member(session: Session, image_id: str, member_id: str) -> bool:
    """Returns whether there was such a member."""
    of_member = (ImageMember.image_id == image_id, ImageMember.member_id == member_id)
    result: Any = session.connection().execute(delete(ImageMember).where(*of_member))
    return bool(result.rowcount)


def _member(row: ImageMember) -> objects.ImageMember:
    return objects.ImageMember(
        image_id=row.image_id,
        member_id=row.member_id,
        status=row.status,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
