"""Keys with which conductors sign tokens for downloads of images: see `minova.image_tokens`."""

from sqlalchemy import BigInteger
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base


class ImageTokenKey(Base):
    """`period`: hours since the epoch, by the server's wall clock."""

    __tablename__ = "image_token_keys"
    period: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    secret: Mapped[str]
