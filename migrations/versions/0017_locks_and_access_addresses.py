"""Who has locked a server, and the addresses that its owner says it is reached at."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("instances", sa.Column("locked_by", sa.String(16), nullable=True))
    op.add_column("instances", sa.Column("access_ip_v4", sa.String(39), nullable=True))
    op.add_column("instances", sa.Column("access_ip_v6", sa.String(39), nullable=True))
