"""Projects that may use a private flavor."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "flavor_projects",
        sa.Column("flavorid", sa.String(255), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("flavorid", "project_id"),
        **EXACT,
    )
