"""Tags of servers, and why a server is locked."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "instance_tags",
        sa.Column("instance_uuid", sa.String(36), nullable=False),
        sa.Column("tag", sa.String(60), nullable=False),
        sa.PrimaryKeyConstraint("instance_uuid", "tag"),
        **EXACT,
    )
    op.create_index("instance_tags_tag", "instance_tags", ["tag"])
    op.add_column("instances", sa.Column("locked_reason", sa.String(255), nullable=True))
