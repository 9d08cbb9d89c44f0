"""Numbers of locks of rows, for Galera clusters: see docs/decisions/0051."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

TABLES = (
    "aggregates",
    "compute_nodes",
    "consumers",
    "flavors",
    "images",
    "instance_groups",
    "instances",
    "inventories",
    "migrations",
    "networks",
    "ports",
    "quota_usages",
    "resource_classes",
    "resource_providers",
    "security_groups",
    "services",
    "tasks",
    "traits",
)


def upgrade() -> None:
    for table in TABLES:
        column: sa.Column[int] = sa.Column("lock_number", sa.Integer(), nullable=True)
        op.add_column(table, column)
