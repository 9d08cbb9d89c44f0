"""The identity and the history of the cloud that a database belongs to, and when hosts and image stores reported."""

import secrets
import uuid
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "cloud",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("history", sa.String(36), nullable=False),
        sa.Column("mark_secret", sa.String(64), nullable=False),
        sa.Column("history_since", sa.Double(), nullable=True),
        sa.Column("history_forced", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("history_without", sa.JSON(), nullable=True),
        sa.Column("safe_since", sa.Double(), nullable=True),
        sa.Column("safe_reason", sa.String(255), nullable=True),
        sa.Column("safe_details", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        **EXACT,
    )
    op.execute(
        "INSERT INTO cloud (id, uuid, history, mark_secret) "
        f"SELECT 1, '{uuid.uuid4()}', '{uuid.uuid4()}', '{secrets.token_hex(32)}' FROM (SELECT 1 AS one) AS one "
        "WHERE NOT EXISTS (SELECT id FROM cloud)"
    )
    op.create_table(
        "cloud_histories",
        sa.Column("history", sa.String(36), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=False),
        sa.Column("details", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("history"),
        **EXACT,
    )
    op.create_table(
        "change_counters",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **EXACT,
    )
    op.create_index("ix_change_counters_changed_at", "change_counters", ["changed_at"])
    op.create_table(
        "witness_reports",
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("reported_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "name"),
        **EXACT,
    )
