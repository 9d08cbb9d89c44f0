"""The identity and the history of the cloud that a database belongs to. `minova.db.recovery.cloud` reads and writes them."""

import secrets
import uuid
from typing import Any

from sqlalchemy import BigInteger, Connection, String, Text, event, false, insert
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Uuid

ROW = 1


class Cloud(Base):
    """One row, made by the migration. Times are of the cloud clock.

    `history`: another random id after each end of safe mode.
    `mark_secret`: seals the marks that conductors hand out. It never changes and leaves the database only for conductors,
    schedulers and APIs.
    `history_since`: a host or image store that has reported since then is known to this history; None in the first one.
    `history_forced`: an operator has ended safe mode, so what was still unknown is accepted.
    `history_without`: names of hosts that had not reported when the operator ended safe mode.
    `safe_since`: when safe mode began; None if the cloud is not in safe mode.
    `safe_reason`: for users. `safe_details`: for operators.
    """

    __tablename__ = "cloud"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    uuid: Mapped[str] = mapped_column(Uuid)
    history: Mapped[str] = mapped_column(Uuid)
    mark_secret: Mapped[str] = mapped_column(String(64), default=lambda: secrets.token_hex(32))
    history_since: Mapped[float | None]
    history_forced: Mapped[bool] = mapped_column(default=False, server_default=false())
    history_without: Mapped[list[Any] | None]
    safe_since: Mapped[float | None]
    safe_reason: Mapped[str | None]
    safe_details: Mapped[str | None] = mapped_column(Text)


class CloudHistory(Base):
    """A history that has ended."""

    __tablename__ = "cloud_histories"
    history: Mapped[str] = mapped_column(Uuid, primary_key=True)
    ended_at: Mapped[float]
    details: Mapped[str | None] = mapped_column(Text)


class ChangeCounter(Base):
    """The change counter of one conductor process. `changed_at`: by the cloud clock."""

    __tablename__ = "change_counters"
    id: Mapped[str] = mapped_column(Uuid, primary_key=True)
    host: Mapped[str]
    number: Mapped[int] = mapped_column(BigInteger)
    changed_at: Mapped[float] = mapped_column(index=True)


class WitnessReport(Base):
    """When a host (`kind` "host") or an image store ("store") last reported what it holds, by the cloud clock."""

    __tablename__ = "witness_reports"
    kind: Mapped[str] = mapped_column(String(10), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    reported_at: Mapped[float]


@event.listens_for(Cloud.__table__, "after_create")
def _insert_row(table: Any, connection: Connection, **_: Any) -> None:
    connection.execute(insert(table).values(id=ROW, uuid=str(uuid.uuid4()), history=str(uuid.uuid4())))
