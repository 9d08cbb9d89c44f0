"""Quotas: limits of projects, defaults, and what is used. Existing rows are counted at a project's first use."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "quota_usages",
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("resource", sa.String(255), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "resource"),
        **EXACT,
    )
    for table, key in (("quotas", "project_id"), ("quota_classes", "class_name")):
        op.create_table(
            table,
            sa.Column(key, sa.String(255), nullable=False),
            sa.Column("resource", sa.String(255), nullable=False),
            sa.Column("hard_limit", sa.Integer(), nullable=False),
            sa.PrimaryKeyConstraint(key, "resource"),
            **EXACT,
        )
