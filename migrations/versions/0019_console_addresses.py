"""Where computes serve consoles."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("services", sa.Column("console_addresses", sa.JSON(), nullable=True))
