"""Interfaces of servers whose ports are in Neutron. Written by the conductor."""

from datetime import datetime
from typing import Any

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Uuid


class NeutronPort(Base):
    """Interface number `nic` of a server: the request for it (`nic_request`), and its port in Neutron.

    `port_id` None: the port is not created yet.
    `held_port_id`: the same id while the server has the port. It is unique: no two servers have one port.
    `made_for_instance`: the port is deleted with the server.
    `host`: the host to which it was bound last.
    `vif`: the interface as Neutron showed it at `refreshed_at`.
    `released_at`: when the server lost the port. From then on it is to be deleted or unbound in Neutron; that was done
    at `cleaned_at`.
    """

    __tablename__ = "neutron_ports"
    __table_args__ = (
        Index("neutron_ports_instance_uuid", "instance_uuid"),
        Index("neutron_ports_released_at", "released_at"),
        Index("neutron_ports_refreshed_at", "refreshed_at"),
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    instance_uuid: Mapped[str] = mapped_column(Uuid)
    nic: Mapped[int]
    project_id: Mapped[str]
    device_owner: Mapped[str]
    nic_request: Mapped[dict[str, Any]]
    made_for_instance: Mapped[bool]
    port_id: Mapped[str | None] = mapped_column(Uuid)
    held_port_id: Mapped[str | None] = mapped_column(Uuid, unique=True)
    tag: Mapped[str | None] = mapped_column(String(60))
    host: Mapped[str | None]
    vif: Mapped[dict[str, Any] | None]
    refreshed_at: Mapped[datetime | None]
    released_at: Mapped[datetime | None]
    cleaned_at: Mapped[datetime | None]
