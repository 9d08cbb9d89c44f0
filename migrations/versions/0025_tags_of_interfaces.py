"""Tags of interfaces that servers get after their creation."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("ports", sa.Column("tag", sa.String(60), nullable=True))
