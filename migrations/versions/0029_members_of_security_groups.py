"""With which number hosts were told of the members of a security group last."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("security_groups", sa.Column("members_revision", sa.Integer(), nullable=False, server_default="0"))
