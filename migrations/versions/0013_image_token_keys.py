"""Keys with which conductors sign tokens for downloads of images."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "image_token_keys",
        sa.Column("period", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("secret", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("period"),
        **EXACT,
    )
