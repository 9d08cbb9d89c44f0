"""Networks, subnets, ports and their addresses."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "networks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("description", sa.String(255), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("admin_state_up", sa.Boolean(), nullable=False),
        sa.Column("shared", sa.Boolean(), nullable=False),
        sa.Column("external", sa.Boolean(), nullable=False),
        sa.Column("mtu", sa.Integer(), nullable=False),
        sa.Column("network_type", sa.String(16), nullable=False),
        sa.Column("physical_network", sa.String(64), nullable=True),
        sa.Column("segmentation_id", sa.Integer(), nullable=True),
        sa.Column("segment", sa.String(80), nullable=True),
        *_common(),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("uuid"),
        sa.UniqueConstraint("segment"),
        **EXACT,
    )
    op.create_index("ix_networks_project_id", "networks", ["project_id"])
    op.create_table(
        "subnets",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("network_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("description", sa.String(255), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("ip_version", sa.Integer(), nullable=False),
        sa.Column("cidr", sa.String(50), nullable=False),
        sa.Column("gateway_ip", sa.String(45), nullable=True),
        sa.Column("enable_dhcp", sa.Boolean(), nullable=False),
        sa.Column("allocation_pools", sa.JSON(), nullable=False),
        sa.Column("dns_nameservers", sa.JSON(), nullable=False),
        sa.Column("host_routes", sa.JSON(), nullable=False),
        sa.Column("ipv6_address_mode", sa.String(16), nullable=True),
        sa.Column("ipv6_ra_mode", sa.String(16), nullable=True),
        sa.Column("last_address", sa.String(45), nullable=True),
        *_common(),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("uuid"),
        sa.ForeignKeyConstraint(["network_id"], ["networks.id"]),
        **EXACT,
    )
    op.create_index("ix_subnets_network_id", "subnets", ["network_id"])
    op.create_index("ix_subnets_project_id", "subnets", ["project_id"])
    op.create_table(
        "ports",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("network_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("description", sa.String(255), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("admin_state_up", sa.Boolean(), nullable=False),
        sa.Column("mac_address", sa.String(17), nullable=False),
        sa.Column("device_id", sa.String(255), nullable=False),
        sa.Column("device_owner", sa.String(255), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        *_common(),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("uuid"),
        sa.UniqueConstraint("mac_address"),
        sa.ForeignKeyConstraint(["network_id"], ["networks.id"]),
        **EXACT,
    )
    op.create_index("ports_network_id", "ports", ["network_id", "id"])
    op.create_index("ports_project_id", "ports", ["project_id", "id"])
    op.create_index("ports_device_id", "ports", ["device_id"])
    op.create_table(
        "ip_allocations",
        sa.Column("subnet_id", sa.Integer(), nullable=False),
        sa.Column("address", sa.String(45), nullable=False),
        sa.Column("port_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("subnet_id", "address"),
        sa.ForeignKeyConstraint(["subnet_id"], ["subnets.id"]),
        sa.ForeignKeyConstraint(["port_id"], ["ports.id"]),
        **EXACT,
    )
    op.create_index("ix_ip_allocations_port_id", "ip_allocations", ["port_id"])


def _common() -> list[sa.Column[Any]]:
    return [
        sa.Column("revision_number", sa.Integer(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
    ]
