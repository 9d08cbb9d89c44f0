"""Guests and images that hosts and image stores hold, and the database does not know."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
LONG = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "unexpected_guests",
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("reason", sa.String(30), nullable=False),
        sa.Column("mark", LONG, nullable=False),
        sa.Column("record", LONG, nullable=True),
        sa.Column("seen_at", TIME, nullable=False),
        sa.Column("remove_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("host", "uuid"),
        **EXACT,
    )
    op.create_index("ix_unexpected_guests_uuid", "unexpected_guests", ["uuid"])
    op.create_table(
        "unexpected_images",
        sa.Column("store", sa.String(255), nullable=False),
        sa.Column("id", sa.String(255), nullable=False),
        sa.Column("reason", sa.String(30), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("image", LONG, nullable=True),
        sa.Column("seen_at", TIME, nullable=False),
        sa.Column("remove_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("store", "id"),
        **EXACT,
    )
