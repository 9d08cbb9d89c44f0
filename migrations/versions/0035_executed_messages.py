"""Messages that must not be executed twice."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "executed_messages",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("executed_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **EXACT,
    )
    op.create_index("ix_executed_messages_executed_at", "executed_messages", ["executed_at"])
