"""On which host an operator has removed a guest without a row: the same guest may be genuine on another host."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("purged_instances", sa.Column("host", sa.String(255), nullable=True))
