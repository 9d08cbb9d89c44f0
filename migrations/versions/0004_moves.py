"""Moves of instances, and PCI devices of nodes."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

LONG_TEXT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
UTC = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "migrations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("migration_type", sa.String(length=30), nullable=False),
        sa.Column("status", sa.String(length=30), nullable=False),
        sa.Column("source_compute", sa.String(length=255), nullable=False),
        sa.Column("source_node", sa.String(length=255), nullable=False),
        sa.Column("dest_compute", sa.String(length=255), nullable=True),
        sa.Column("dest_node", sa.String(length=255), nullable=True),
        sa.Column("value", LONG_TEXT, nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("updated_at", UTC, nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("uuid"),
        **EXACT,
    )
    op.create_index(op.f("ix_migrations_instance_uuid"), "migrations", ["instance_uuid"], unique=False)
    op.create_index("migrations_source", "migrations", ["source_compute", "status"], unique=False)
    op.create_index("migrations_dest", "migrations", ["dest_compute", "status"], unique=False)
    op.create_table(
        "pci_devices",
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("address", sa.String(length=32), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=True),
        sa.Column("value", LONG_TEXT, nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["compute_nodes.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("node_id", "address"),
        **EXACT,
    )
    op.create_index(op.f("ix_pci_devices_instance_uuid"), "pci_devices", ["instance_uuid"], unique=False)
