"""Which keys for secrets of guests each conductor has, by their IDs."""

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("services", sa.Column("guest_keys", sa.String(255), nullable=True))
