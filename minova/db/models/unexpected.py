"""What hosts and image stores hold, and the database does not know or does not expect there. Written by the conductor."""

from datetime import datetime

from sqlalchemy import BigInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Uuid
from minova.db.models.types import StructType
from minova.objects.catalogue.image import Image
from minova.objects.unexpected.guest_record import GuestMark, GuestRecord


class UnexpectedGuest(Base):
    """A guest on a host, as its host has reported it last. `reason`: an `objects.unexpected.removal_rules.DomainVerdict`.

    `record` None: the host keeps none, or has not sent it yet.
    `remove_at`: when an operator decided that the host shall remove it.
    """

    __tablename__ = "unexpected_guests"
    host: Mapped[str] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(Uuid, primary_key=True, index=True)
    reason: Mapped[str] = mapped_column(String(30))
    mark: Mapped[GuestMark] = mapped_column(StructType(GuestMark))
    record: Mapped[GuestRecord | None] = mapped_column(StructType(GuestRecord))
    seen_at: Mapped[datetime]
    remove_at: Mapped[datetime | None]


class UnexpectedImage(Base):
    """Bytes in an image store, as a minova-api has reported them last. `reason`: no_row, or newer than its record.

    `store`: the host of that minova-api.
    `image` None: nothing is recorded beside the bytes.
    """

    __tablename__ = "unexpected_images"
    store: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    reason: Mapped[str] = mapped_column(String(30))
    size: Mapped[int] = mapped_column(BigInteger)
    image: Mapped[Image | None] = mapped_column(StructType(Image))
    seen_at: Mapped[datetime]
    remove_at: Mapped[datetime | None]
