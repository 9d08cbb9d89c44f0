"""Migrations of instances between nodes."""

from datetime import datetime

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Lockable, Uuid
from minova.db.models.types import StructType
from minova.objects.servers.live_migration import LiveProgress
from minova.objects.servers.migration import Migration as MigrationObject


class Migration(Lockable, Base):
    """Searchable fields are columns besides `value`. Rows of ended migrations stay, as the history of the instance.

    `progress`: of a live migration, as its source has reported it last.
    `cleanup_host`, `hold`: see `objects/servers/migration.py`.
    `changed_at`: as `updated_at`, but by the cloud clock; None in rows of the release before that clock.
    """

    __tablename__ = "migrations"
    __table_args__ = (
        Index("migrations_source", "source_compute", "status"),
        Index("migrations_dest", "dest_compute", "status"),
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(Uuid, unique=True)
    instance_uuid: Mapped[str] = mapped_column(Uuid, index=True)
    migration_type: Mapped[str] = mapped_column(String(30))
    status: Mapped[str] = mapped_column(String(30))
    source_compute: Mapped[str]
    source_node: Mapped[str]
    dest_compute: Mapped[str | None]
    dest_node: Mapped[str | None]
    value: Mapped[MigrationObject] = mapped_column(StructType(MigrationObject))
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime | None]
    changed_at: Mapped[float | None]
    cleanup_host: Mapped[str | None] = mapped_column(index=True)
    progress: Mapped[LiveProgress | None] = mapped_column(StructType(LiveProgress))
    hold: Mapped[str] = mapped_column(String(10), server_default="")
