"""What the source of a live migration has reported last."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    text = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
    op.add_column("migrations", sa.Column("progress", text, nullable=True))
