"""Images as the conductor writes them."""

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from minova.db.models import Image
from minova.objects import image as objects


def add(session: Session, image: objects.Image, at: datetime) -> objects.Image:
    """As stored. IntegrityError: its id is taken."""
    made = msgspec.structs.replace(image, created_at=at, updated_at=at)
    values = {"id": made.id, "name": made.name, "status": made.status, "value": made}
    session.connection().execute(insert(Image).values(**values, created_at=at, updated_at=at))
    return made


def find(session: Session, image_id: str) -> objects.Image | None:
    return session.scalar(select(Image.value).where(Image.id == image_id))


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
    """Whether there was one."""
    result: Any = session.connection().execute(delete(Image).where(Image.id == image_id))
    return bool(result.rowcount)
