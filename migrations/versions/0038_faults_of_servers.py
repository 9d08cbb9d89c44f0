"""Whether the newest fault of a server is shown."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("instances", sa.Column("has_fault", sa.Boolean(), nullable=False, server_default=sa.false()))
