"""Key pairs of users, and the key that a server was created with."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

UTC = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
LONG = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "key_pairs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("type", sa.String(30), nullable=False),
        sa.Column("fingerprint", sa.String(255), nullable=False),
        sa.Column("public_key", LONG, nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("user_id", "name"),
        sa.UniqueConstraint("user_id", "number"),
        **EXACT,
    )
    op.add_column("instances", sa.Column("key_data", LONG, nullable=True))
    op.add_column("instances", sa.Column("key_type", sa.String(30), nullable=True))
