"""Which machine and which process serve a host, and the order of the writes of a node."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name, length in (("compute_id", 36), ("process", 36), ("process_lock", 255), ("process_place", 255)):
        op.add_column("services", sa.Column(name, sa.String(length=length), nullable=True))
    op.add_column("services", sa.Column("epoch", sa.Integer(), server_default="0", nullable=False))
    op.add_column("services", sa.Column("former_hosts", sa.JSON(), nullable=True))
    op.create_index("services_compute_id", "services", ["compute_id"], unique=True)
    op.add_column("compute_nodes", sa.Column("writer_epoch", sa.Integer(), nullable=True))
    op.add_column("compute_nodes", sa.Column("write_number", sa.Integer(), nullable=True))
