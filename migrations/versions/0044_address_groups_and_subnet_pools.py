"""Address groups, which rules of security groups name; subnet pools, of which subnets get their ranges."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None

EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def _standard() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("uuid", sa.String(36), nullable=False, unique=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("description", sa.String(255), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False, index=True),
        sa.Column("revision_number", sa.Integer(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.Column("lock_number", sa.Integer(), nullable=True),
    ]


def upgrade() -> None:
    op.create_table("address_groups", *_standard(), sa.Column("addresses", sa.JSON(), nullable=False), **EXACT)
    op.create_table(
        "subnet_pools",
        *_standard(),
        sa.Column("prefixes", sa.JSON(), nullable=False),
        sa.Column("ip_version", sa.Integer(), nullable=False),
        sa.Column("default_prefixlen", sa.Integer(), nullable=False),
        sa.Column("min_prefixlen", sa.Integer(), nullable=False),
        sa.Column("max_prefixlen", sa.Integer(), nullable=False),
        sa.Column("default_quota", sa.Integer(), nullable=True),
        sa.Column("default_for", sa.Integer(), nullable=True, unique=True),
        sa.Column("shared", sa.Boolean(), nullable=False),
        **EXACT,
    )
    # Without foreign keys, for which SQLite would copy the tables: a transaction that names or removes a group or pool locks its row.
    for table, name in (("security_group_rules", "remote_address_group_id"), ("subnets", "pool_id")):
        op.add_column(table, sa.Column(name, sa.Integer(), nullable=True))
        op.create_index(f"ix_{table}_{name}", table, [name])
