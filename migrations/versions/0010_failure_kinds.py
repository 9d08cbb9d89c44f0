"""Kinds of failures, by which people read a fixed text. What older releases write has none."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("instance_action_events", "instance_faults"):
        kind: Any = sa.Column("kind", sa.String(64), nullable=True)
        op.add_column(table, kind)
