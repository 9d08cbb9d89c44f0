"""Which instances were purged: the proof that domains of theirs may go."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

UTC = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "purged_instances",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("purged_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("uuid"),
        **EXACT,
    )
    op.create_index(op.f("ix_purged_instances_purged_at"), "purged_instances", ["purged_at"], unique=False)
