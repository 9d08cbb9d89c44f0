"""The last report of a compute about its guests."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("services", sa.Column("report_process", sa.String(36), nullable=True))
    op.add_column("services", sa.Column("report_number", sa.BigInteger(), nullable=True))
