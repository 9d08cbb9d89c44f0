"""Images as the conductor writes them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Delete, delete, func, insert, select, update
from sqlalchemy.orm import Session

from minova import errors
from minova.db.models import DeletedImage, Image
from minova.db.sql import json_field
from minova.objects import image as objects


class IdWasUsed(errors.Conflict):
    """Of a deleted image."""


def add(session: Session, image: objects.Image, at: datetime) -> objects.Image:
    """As stored. IntegrityError: its id is taken. IdWasUsed: it was that of an image that has been deleted.

    The row comes first: it waits for a deletion under way, whose entry is then visible.
    """
    made = msgspec.structs.replace(image, created_at=at, updated_at=at)
    values = {"id": made.id, "name": made.name, "status": made.status, "value": made}
    session.connection().execute(insert(Image).values(**values, created_at=at, updated_at=at))
    if session.scalar(select(DeletedImage.id).where(DeletedImage.id == made.id)) is not None:
        raise IdWasUsed(f"Image {made.id} has been deleted.")
    return made


def find(session: Session, image_id: str) -> objects.Image | None:
    return session.scalar(select(Image.value).where(Image.id == image_id))


def of_owner(session: Session, owner: str | None, properties: Mapping[str, str]) -> list[objects.Image]:
    """Those of this project that have all of these properties."""
    owned = func.coalesce(json_field(Image.value, "owner"), "") == (owner or "")
    found = session.scalars(select(Image.value).where(owned).execution_options(yield_per=1000))
    return [image for image in found if properties.items() <= image.properties.items()]


def replace(session: Session, image: objects.Image, expected_status: str, at: datetime) -> objects.Image | None:
    """As stored; nothing when there is none of the expected status. When it was made stays as it was."""
    created_at = session.scalar(select(Image.created_at).where(Image.id == image.id))
    made = msgspec.structs.replace(image, created_at=created_at, updated_at=at)
    statement = (
        update(Image)
        .where(Image.id == image.id, Image.status == expected_status)
        .values(name=made.name, status=made.status, value=made, updated_at=at)
    )
    result: Any = session.connection().execute(statement)
    return made if result.rowcount else None


def remove(session: Session, image_id: str) -> bool:
    """Whether there was one. Its id is never used again."""
    return _remove(session, delete(Image).where(Image.id == image_id), image_id)


def remove_unfinished(session: Session, image_id: str) -> bool:
    """Whether there was one whose bytes have not all come. Its id is never used again."""
    statement = delete(Image).where(Image.id == image_id, Image.status.in_(("queued", "saving")))
    return _remove(session, statement, image_id)


def _remove(session: Session, statement: Delete, image_id: str) -> bool:
    result: Any = session.connection().execute(statement)
    if result.rowcount and session.get(DeletedImage, image_id) is None:
        # The entry is there where a conductor of the last release has made the image under a used id.
        session.connection().execute(insert(DeletedImage).values(id=image_id))
    return bool(result.rowcount)
