"""Interfaces of servers whose ports are in Neutron."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "neutron_ports",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("instance_uuid", sa.String(36), nullable=False),
        sa.Column("nic", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("device_owner", sa.String(255), nullable=False),
        sa.Column("nic_request", sa.JSON(), nullable=False),
        sa.Column("made_for_instance", sa.Boolean(), nullable=False),
        sa.Column("port_id", sa.String(36), nullable=True),
        sa.Column("held_port_id", sa.String(36), nullable=True),
        sa.Column("tag", sa.String(60), nullable=True),
        sa.Column("host", sa.String(255), nullable=True),
        sa.Column("vif", sa.JSON(), nullable=True),
        sa.Column("refreshed_at", TIME, nullable=True),
        sa.Column("released_at", TIME, nullable=True),
        sa.Column("cleaned_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("held_port_id"),
        **EXACT,
    )
    op.create_index("neutron_ports_instance_uuid", "neutron_ports", ["instance_uuid"])
    op.create_index("neutron_ports_released_at", "neutron_ports", ["released_at"])
    op.create_index("neutron_ports_refreshed_at", "neutron_ports", ["refreshed_at"])
