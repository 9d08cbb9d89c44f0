"""Records of images; the bytes are in files."""

from datetime import datetime

from sqlalchemy import (
    String,
)
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Lockable, Uuid
from minova.db.models.types import StructType
from minova.objects.catalogue.image import Image as ImageObject


class Image(Lockable, Base):
    """`name` and `status` are columns besides `value`, for searches and for conditional updates."""

    __tablename__ = "images"
    id: Mapped[str] = mapped_column(Uuid, primary_key=True)
    name: Mapped[str | None] = mapped_column(index=True)
    status: Mapped[str] = mapped_column(String(30))
    value: Mapped[ImageObject] = mapped_column(StructType(ImageObject))
    created_at: Mapped[datetime] = mapped_column(index=True)
    updated_at: Mapped[datetime]


class ImageMember(Base):
    """A project with which the image is shared."""

    __tablename__ = "image_members"
    image_id: Mapped[str] = mapped_column(Uuid, primary_key=True)
    member_id: Mapped[str] = mapped_column(primary_key=True, index=True)
    status: Mapped[str] = mapped_column(String(30))
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class DeletedImage(Base):
    """The id of a deleted image. It is kept forever, so that no other user can offer other data under the same id
    (OSSN-0075).
    """

    __tablename__ = "deleted_images"
    id: Mapped[str] = mapped_column(Uuid, primary_key=True)
