"""Copies of disks that migrations have left and that may be the last ones."""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("migrations", sa.Column("hold", sa.String(10), nullable=False, server_default=""))
