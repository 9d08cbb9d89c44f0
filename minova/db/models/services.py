"""Services and their heartbeats."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    Index,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Lockable, Uuid


class Service(Lockable, Base):
    __tablename__ = "services"
    __table_args__ = (
        UniqueConstraint("host", "binary"),
        Index("services_compute_id", "compute_id", unique=True),
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(Uuid, unique=True)
    host: Mapped[str]
    binary: Mapped[str]
    topic: Mapped[str]
    disabled: Mapped[bool] = mapped_column(default=False)
    disabled_reason: Mapped[str | None]
    forced_down: Mapped[bool] = mapped_column(default=False)
    down_reason: Mapped[str | None]  # why the service reports that it cannot work now, such as a lost libvirtd
    # Why the last report of the compute about its host was refused; None: it was accepted.
    refused_report: Mapped[str | None]
    # Only conductors have the IDs of their keys for secrets of guests; empty without a key, None from releases that report none.
    guest_keys: Mapped[str | None]
    version: Mapped[int] = mapped_column(default=0)
    # Only computes have these: see objects.service.HostIdentity. `epoch` counts the processes that have registered.
    compute_id: Mapped[str | None] = mapped_column(Uuid)
    process: Mapped[str | None] = mapped_column(Uuid)
    process_lock: Mapped[str | None]
    process_place: Mapped[str | None]
    epoch: Mapped[int] = mapped_column(default=0, server_default="0")
    former_hosts: Mapped[list[Any] | None]
    console_addresses: Mapped[list[Any] | None]
    # The last report of guests that was written: its process and number, see `recovery.report_order`.
    report_process: Mapped[str | None] = mapped_column(Uuid)
    report_number: Mapped[int | None] = mapped_column(BigInteger)
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime | None]


class Heartbeat(Base):
    """A narrow table, because it is written once a second for many services. Times are by the cloud clock."""

    __tablename__ = "heartbeats"
    service_id: Mapped[int] = mapped_column(ForeignKey("services.id", ondelete="CASCADE"), primary_key=True)
    last_seen: Mapped[float]
