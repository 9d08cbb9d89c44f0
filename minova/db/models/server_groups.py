"""Server groups. Written by the conductor; placement locks a group's row while it counts its members' places."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Uuid


class InstanceGroup(Base):
    """`policy` is one of Nova's four; `rules` may hold `max_server_per_host` where it is anti-affinity."""

    __tablename__ = "instance_groups"
    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(Uuid, unique=True)
    name: Mapped[str]
    project_id: Mapped[str] = mapped_column(index=True)
    user_id: Mapped[str]
    policy: Mapped[str] = mapped_column(String(30))
    rules: Mapped[dict[str, Any]] = mapped_column(default=dict)
    created_at: Mapped[datetime]


class InstanceGroupMember(Base):
    """An instance is in one group at most, from its creation to its purge. Where it has its place, its allocations say."""

    __tablename__ = "instance_group_members"
    instance_uuid: Mapped[str] = mapped_column(Uuid, primary_key=True)
    group_id: Mapped[int] = mapped_column(ForeignKey("instance_groups.id", ondelete="CASCADE"), index=True)
