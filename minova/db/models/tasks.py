"""Tasks and the workers that own them."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Lockable, Uuid


class Worker(Base):
    """A process that runs tasks. Its lease, by the cloud clock, covers every task it owns.

    `cloud_clock`: None in rows of the release before that clock, whose leases use the wall clock.
    """

    __tablename__ = "workers"
    id: Mapped[str] = mapped_column(Uuid, primary_key=True)
    host: Mapped[str]
    lease_until: Mapped[float] = mapped_column(index=True)
    cloud_clock: Mapped[bool | None]


class TaskStep(StrEnum):
    """The next step of a task. SCHEDULE and BUILD are steps of kind `build`; ACTION is the only step of every server
    action, MOVE that of every move.
    """

    SCHEDULE = "schedule"
    BUILD = "build"
    DELETE = "delete"
    ACTION = "action"
    MOVE = "move"


class Task(Lockable, Base):
    """Work on one instance that must come to an end. `epoch` fences conductors, `attempt` fences computes.

    `kind`: `build`, `delete`, `move`, or the name of a server action.
    `step`: a TaskStep.
    `payload`: what the step needs (the chosen host and the remaining alternates).
    `wake_at`: when to process the task again, by the cloud clock.
    `begun_at`: when it was requested, by the same clock; None until a conductor that knows this column takes the task
    over.

    Rows of ended tasks are deleted; the instance's actions keep the history.
    """

    __tablename__ = "tasks"
    __table_args__ = (Index("tasks_worker_id_wake_at", "worker_id", "wake_at"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(30))
    instance_uuid: Mapped[str] = mapped_column(Uuid, unique=True)
    reservation_id: Mapped[str] = mapped_column(String(36))
    action_id: Mapped[int | None]
    worker_id: Mapped[str] = mapped_column(Uuid)
    epoch: Mapped[int] = mapped_column(default=1)
    step: Mapped[str] = mapped_column(String(30))
    attempt: Mapped[int] = mapped_column(default=0)
    claim_number: Mapped[int] = mapped_column("claim_no", key="claim_number", default=0)
    host: Mapped[str | None] = mapped_column(index=True)
    node: Mapped[str | None]
    payload: Mapped[dict[str, Any]] = mapped_column(default=dict)
    request_id: Mapped[str] = mapped_column(String(64))
    wake_at: Mapped[float]
    deadline: Mapped[float]
    created_at: Mapped[datetime]
    begun_at: Mapped[float | None]
