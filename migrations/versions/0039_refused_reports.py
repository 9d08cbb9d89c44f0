"""Why the last report of a compute about its host was refused."""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("services", sa.Column("refused_report", sa.String(255), nullable=True))
