"""The bridges of hosts, by the physical networks that they carry."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("compute_nodes", sa.Column("bridges", sa.JSON(), nullable=True))
