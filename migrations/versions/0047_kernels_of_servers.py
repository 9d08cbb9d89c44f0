"""Which kernel and ramdisk servers are booted from: listings filter and sort by them."""

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("kernel_id", "ramdisk_id"):
        op.add_column("instances", sa.Column(name, sa.String(255), nullable=False, server_default=""))
