"""Messages that must not be executed twice."""

from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Uuid


class ExecutedMessage(Base):
    """A message of a call that `contracts/once.py` names. `executed_since`: as `executed_at`, but by the cloud clock; None in rows
    of a release before this column.
    """

    __tablename__ = "executed_messages"
    id: Mapped[str] = mapped_column(Uuid, primary_key=True)
    executed_at: Mapped[datetime] = mapped_column(index=True)
    executed_since: Mapped[float | None] = mapped_column(index=True)
