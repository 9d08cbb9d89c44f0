"""The cloud clock, and times by it where there were times by the wall clocks of conductors."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
NOW = {
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "extract(epoch from clock_timestamp())::double precision",
}
MARIADB_NOW = "unix_timestamp(sysdate(6)) + 0e0"


def upgrade() -> None:
    op.create_table(
        "clock",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("wall", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **EXACT,
    )
    now = NOW.get(op.get_bind().dialect.name, MARIADB_NOW)
    op.execute(
        f"INSERT INTO clock (id, value, wall) SELECT 1, {now}, {now} FROM (SELECT 1 AS one) AS one "
        "WHERE NOT EXISTS (SELECT id FROM clock)"
    )
    op.add_column("workers", sa.Column("cloud_clock", sa.Boolean(), nullable=True))
    op.add_column("tasks", sa.Column("begun_at", sa.Double(), nullable=True))
    op.add_column("migrations", sa.Column("changed_at", sa.Double(), nullable=True))
