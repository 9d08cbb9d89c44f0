"""Moves of instances between nodes, and the PCI devices of nodes."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Uuid
from minova.db.models.types import StructType
from minova.objects.migration import Migration as MigrationObject
from minova.objects.pci import PciDevice as PciDeviceObject


class Migration(Base):
    """What is searched for stands outside `value` too. Ended ones stay, as the history of the instance.

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


class PciDevice(Base):
    """A device is known by its address on its node; who has it is searched for by instance."""

    __tablename__ = "pci_devices"
    node_id: Mapped[int] = mapped_column(ForeignKey("compute_nodes.id", ondelete="CASCADE"), primary_key=True)
    address: Mapped[str] = mapped_column(String(32), primary_key=True)
    instance_uuid: Mapped[str | None] = mapped_column(Uuid, index=True)
    value: Mapped[PciDeviceObject] = mapped_column(StructType(PciDeviceObject))
