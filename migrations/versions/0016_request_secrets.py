"""Passwords and files of new servers, apart from what is kept of a request."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

UTC = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "request_secrets",
        sa.Column("reservation_id", sa.String(36), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("reservation_id"),
        **EXACT,
    )
