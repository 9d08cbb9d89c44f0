"""Server groups and their members, from whose allocations a hard policy is counted."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

UTC = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "instance_groups",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("policy", sa.String(length=30), nullable=False),
        sa.Column("rules", sa.JSON(), nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("uuid"),
        **EXACT,
    )
    op.create_index(op.f("ix_instance_groups_project_id"), "instance_groups", ["project_id"], unique=False)
    op.create_table(
        "instance_group_members",
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("group_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["group_id"], ["instance_groups.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("instance_uuid"),
        **EXACT,
    )
    op.create_index(op.f("ix_instance_group_members_group_id"), "instance_group_members", ["group_id"], unique=False)
