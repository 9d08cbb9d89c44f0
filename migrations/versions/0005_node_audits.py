"""When each node was last audited, and what that found."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

LONG_TEXT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
UTC = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "node_audits",
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("audited_at", UTC, nullable=False),
        sa.Column("found", LONG_TEXT, nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["compute_nodes.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("node_id"),
        **EXACT,
    )
