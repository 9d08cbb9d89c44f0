"""The PCI devices of nodes."""

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Uuid
from minova.db.models.types import StructType
from minova.objects.hosts.pci import PciDevice as PciDeviceObject


class PciDevice(Base):
    """The key is the device's address on its node. `instance_uuid`: the instance that uses it."""

    __tablename__ = "pci_devices"
    node_id: Mapped[int] = mapped_column(ForeignKey("compute_nodes.id", ondelete="CASCADE"), primary_key=True)
    address: Mapped[str] = mapped_column(String(32), primary_key=True)
    instance_uuid: Mapped[str | None] = mapped_column(Uuid, index=True)
    value: Mapped[PciDeviceObject] = mapped_column(StructType(PciDeviceObject))
