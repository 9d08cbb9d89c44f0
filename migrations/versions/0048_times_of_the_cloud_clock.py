"""Since when servers are shelved, soft-deleted and deleted, and since when messages count as executed, by the cloud clock. What is
removed after some time goes by it, because each conductor's own clock may be wrong.
"""

import sqlalchemy as sa
from alembic import op

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("shelved_since", "soft_deleted_since", "deleted_since"):
        op.add_column("instances", sa.Column(name, sa.Double(), nullable=True))
    op.create_index("ix_instances_deleted_since", "instances", ["deleted_since"])
    op.add_column("executed_messages", sa.Column("executed_since", sa.Double(), nullable=True))
    op.create_index("ix_executed_messages_executed_since", "executed_messages", ["executed_since"])
