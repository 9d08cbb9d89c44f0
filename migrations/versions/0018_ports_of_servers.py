"""Which server has a port."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("ports", sa.Column("instance_uuid", sa.String(36), nullable=True))
    op.add_column("ports", sa.Column("nic", sa.Integer(), nullable=True))
    op.add_column("ports", sa.Column("made_for_instance", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_index("ports_instance_uuid", "ports", ["instance_uuid"])
