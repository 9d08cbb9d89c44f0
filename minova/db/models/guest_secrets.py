"""Secrets of guests, encrypted with a key that is not in the database. Written by the conductor."""

from datetime import datetime

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Uuid
from minova.db.models.types import LongText


class GuestSecret(Base):
    """`kind`: a `SecretKind`, one that a rebuild replaces, or the state of a TPM (`db/servers/guest_secrets.py`). Removed with the
    server, at its deletion.
    """

    __tablename__ = "guest_secrets"
    instance_uuid: Mapped[str] = mapped_column(Uuid, primary_key=True)
    kind: Mapped[str] = mapped_column(String(16), primary_key=True)
    value: Mapped[str] = mapped_column(LongText)
    created_at: Mapped[datetime]
