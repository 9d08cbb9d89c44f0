"""Server groups. The conductor writes them. Placement locks a group's row while it counts the hosts of its members."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Lockable, Uuid


class InstanceGroup(Lockable, Base):
    """`policy` is one of Nova's four; `rules` may hold `max_server_per_host` for anti-affinity."""

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
    """An instance is in at most one group, from its creation to its purge. Its allocations show where it is."""

    __tablename__ = "instance_group_members"
    instance_uuid: Mapped[str] = mapped_column(Uuid, primary_key=True)
    group_id: Mapped[int] = mapped_column(ForeignKey("instance_groups.id", ondelete="CASCADE"), index=True)
