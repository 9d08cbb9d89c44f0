"""Tokens that open consoles."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "console_tokens",
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("instance_uuid", sa.String(36), nullable=False),
        sa.Column("console_type", sa.String(32), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("token_hash"),
        **EXACT,
    )
    op.create_index("ix_console_tokens_instance_uuid", "console_tokens", ["instance_uuid"])
    op.create_index("ix_console_tokens_expires_at", "console_tokens", ["expires_at"])
