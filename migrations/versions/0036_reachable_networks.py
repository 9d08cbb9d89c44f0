"""Networks that their hosts reach. Until now hosts reached every local network. They go on reaching those that only
administrators can have made: shared networks, and those of the project of administrators without Keystone.
"""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("networks", sa.Column("reachable", sa.Boolean(), nullable=False, server_default=sa.false()))
    networks = sa.table(
        "networks",
        *(sa.column(name) for name in ("network_type", "project_id")),
        *(sa.column(name, sa.Boolean()) for name in ("shared", "reachable")),
    )
    op.execute(
        sa.update(networks)
        .where(networks.c.network_type == "local", sa.or_(networks.c.shared, networks.c.project_id == "admin"))
        .where(networks.c.reachable.is_(sa.false()))
        .values(reachable=True)
    )
