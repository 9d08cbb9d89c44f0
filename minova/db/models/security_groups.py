"""Security groups, their rules, and the address groups that rules name. Written by the conductor."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Lockable, Uuid


class SecurityGroup(Lockable, Base):
    """`default_of`: the project whose default group it is; a project has one.
    `members_revision`: the revision of its members' addresses that hosts last received. It is not the API's
    `revision_number`.
    """

    __tablename__ = "security_groups"
    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(Uuid, unique=True)
    name: Mapped[str]
    description: Mapped[str]
    project_id: Mapped[str] = mapped_column(index=True)
    default_of: Mapped[str | None] = mapped_column(unique=True)
    revision_number: Mapped[int]
    members_revision: Mapped[int] = mapped_column(default=0, server_default="0")
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class SecurityGroupRule(Base):
    """A rule is created and removed, but never changed; only its tags are, which raises its revision.

    `remote_address_group_id`: the row of an address group, which is locked while a rule that names it is made.
    """

    __tablename__ = "security_group_rules"
    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(Uuid, unique=True)
    group_id: Mapped[int] = mapped_column(ForeignKey("security_groups.id"), index=True)
    project_id: Mapped[str] = mapped_column(index=True)
    description: Mapped[str]
    direction: Mapped[str] = mapped_column(String(16))
    ethertype: Mapped[str] = mapped_column(String(16))
    protocol: Mapped[str | None] = mapped_column(String(16))
    port_range_min: Mapped[int | None]
    port_range_max: Mapped[int | None]
    remote_ip_prefix: Mapped[str | None] = mapped_column(String(50))
    remote_group_id: Mapped[int | None] = mapped_column(ForeignKey("security_groups.id"), index=True)
    remote_address_group_id: Mapped[int | None] = mapped_column(index=True)
    revision_number: Mapped[int]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class AddressGroup(Lockable, Base):
    __tablename__ = "address_groups"
    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(Uuid, unique=True)
    name: Mapped[str]
    description: Mapped[str]
    project_id: Mapped[str] = mapped_column(index=True)
    addresses: Mapped[list[Any]]
    revision_number: Mapped[int]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class PortSecurityGroup(Base):
    __tablename__ = "port_security_groups"
    port_id: Mapped[int] = mapped_column(ForeignKey("ports.id"), primary_key=True)
    group_id: Mapped[int] = mapped_column(ForeignKey("security_groups.id"), primary_key=True, index=True)
