"""Key pairs of users: the public halves. Written by the conductor."""

from datetime import datetime

from sqlalchemy import String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base
from minova.db.models.types import LongText


class KeyPair(Base):
    """`number` is unique among the user's key pairs and below the quota, so that two concurrent requests cannot exceed
    the quota.
    """

    __tablename__ = "key_pairs"
    __table_args__ = (UniqueConstraint("user_id", "name"), UniqueConstraint("user_id", "number"))
    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[str]
    number: Mapped[int]
    name: Mapped[str]
    type: Mapped[str] = mapped_column(String(30))
    fingerprint: Mapped[str]
    public_key: Mapped[str] = mapped_column(LongText)
    created_at: Mapped[datetime]
