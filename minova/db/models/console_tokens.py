"""Tokens that open consoles. Written by the conductor."""

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Uuid


class ConsoleToken(Base):
    """Only a hash of the token is stored, so reading the table or a backup of it opens no console. `expires_at`: cloud
    clock.
    """

    __tablename__ = "console_tokens"
    token_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    instance_uuid: Mapped[str] = mapped_column(Uuid, index=True)
    console_type: Mapped[str] = mapped_column(String(32))
    expires_at: Mapped[float] = mapped_column(index=True)
