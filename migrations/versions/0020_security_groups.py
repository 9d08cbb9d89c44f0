"""Security groups, their rules, and the ports that have them."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "security_groups",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("description", sa.String(255), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("default_of", sa.String(255), nullable=True),
        *_common(),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("uuid"),
        sa.UniqueConstraint("default_of"),
        **EXACT,
    )
    op.create_index("ix_security_groups_project_id", "security_groups", ["project_id"])
    op.create_table(
        "security_group_rules",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("group_id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("description", sa.String(255), nullable=False),
        sa.Column("direction", sa.String(16), nullable=False),
        sa.Column("ethertype", sa.String(16), nullable=False),
        sa.Column("protocol", sa.String(16), nullable=True),
        sa.Column("port_range_min", sa.Integer(), nullable=True),
        sa.Column("port_range_max", sa.Integer(), nullable=True),
        sa.Column("remote_ip_prefix", sa.String(50), nullable=True),
        sa.Column("remote_group_id", sa.Integer(), nullable=True),
        *_common(),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("uuid"),
        sa.ForeignKeyConstraint(["group_id"], ["security_groups.id"]),
        sa.ForeignKeyConstraint(["remote_group_id"], ["security_groups.id"]),
        **EXACT,
    )
    op.create_index("ix_security_group_rules_group_id", "security_group_rules", ["group_id"])
    op.create_index("ix_security_group_rules_project_id", "security_group_rules", ["project_id"])
    op.create_index("ix_security_group_rules_remote_group_id", "security_group_rules", ["remote_group_id"])
    op.create_table(
        "port_security_groups",
        sa.Column("port_id", sa.Integer(), nullable=False),
        sa.Column("group_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("port_id", "group_id"),
        sa.ForeignKeyConstraint(["port_id"], ["ports.id"]),
        sa.ForeignKeyConstraint(["group_id"], ["security_groups.id"]),
        **EXACT,
    )
    op.create_index("ix_port_security_groups_group_id", "port_security_groups", ["group_id"])
    op.add_column("ports", sa.Column("port_security_enabled", sa.Boolean(), nullable=False, server_default=sa.true()))
    op.add_column("ports", sa.Column("allowed_address_pairs", sa.JSON(), nullable=True))
    op.add_column("ports", sa.Column("has_address_pairs", sa.Boolean(), nullable=False, server_default=sa.false()))


def _common() -> list[sa.Column[Any]]:
    return [
        sa.Column("revision_number", sa.Integer(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
    ]
