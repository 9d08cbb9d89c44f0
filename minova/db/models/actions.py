"""Actions on instances and their results."""

from datetime import datetime

from sqlalchemy import (
    ForeignKey,
    String,
    Text,
)
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Uuid


class InstanceAction(Base):
    """An action that a user requested. `result`: None while it is in progress, then Success or Error."""

    __tablename__ = "instance_actions"
    id: Mapped[int] = mapped_column(primary_key=True)
    instance_uuid: Mapped[str] = mapped_column(Uuid, index=True)
    action: Mapped[str] = mapped_column(String(30))
    request_id: Mapped[str] = mapped_column(String(64), index=True)
    user_id: Mapped[str]
    project_id: Mapped[str]
    start_time: Mapped[datetime]
    finish_time: Mapped[datetime | None]
    result: Mapped[str | None] = mapped_column(String(30))
    message: Mapped[str | None] = mapped_column(Text)


class InstanceActionEvent(Base):
    """One attempt or step of an action, such as a build on one host."""

    __tablename__ = "instance_action_events"
    id: Mapped[int] = mapped_column(primary_key=True)
    action_id: Mapped[int] = mapped_column(ForeignKey("instance_actions.id", ondelete="CASCADE"), index=True)
    event: Mapped[str]
    host: Mapped[str | None]
    start_time: Mapped[datetime]
    finish_time: Mapped[datetime | None]
    result: Mapped[str | None] = mapped_column(String(30))
    details: Mapped[str | None] = mapped_column(Text)
    kind: Mapped[str | None] = mapped_column(String(64))
