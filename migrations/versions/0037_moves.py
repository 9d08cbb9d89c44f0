"""Hosts that have still to remove what a migration has left there."""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("migrations", sa.Column("cleanup_host", sa.String(255), nullable=True))
    op.create_index("ix_migrations_cleanup_host", "migrations", ["cleanup_host"])
