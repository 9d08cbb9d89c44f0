"""The image of a server that is shelved, and since when it is."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    op.add_column("instances", sa.Column("shelved_image_id", sa.String(36), nullable=True))
    op.add_column("instances", sa.Column("shelved_at", TIME, nullable=True))
