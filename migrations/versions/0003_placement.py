"""What Placement's whole model needs: custom resource classes and traits, times, the roots of provider trees."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    for name in ("resource_classes", "traits"):
        op.create_table(
            name,
            sa.Column("name", sa.String(length=255), nullable=False),
            sa.Column("updated_at", sa.Double(), nullable=False),
            sa.PrimaryKeyConstraint("name"),
            **EXACT,
        )
    for name in ("resource_providers", "inventories", "allocations"):
        op.add_column(name, sa.Column("updated_at", sa.Double(), nullable=True))
    op.create_index(op.f("ix_consumers_project_id"), "consumers", ["project_id"], unique=False)
    op.create_index(op.f("ix_resource_provider_traits_trait"), "resource_provider_traits", ["trait"], unique=False)
    op.create_index(
        op.f("ix_resource_provider_aggregates_aggregate_uuid"),
        "resource_provider_aggregates",
        ["aggregate_uuid"],
        unique=False,
    )
    op.add_column("resource_providers", sa.Column("of_node", sa.Boolean(), nullable=True))
    op.execute("UPDATE resource_providers SET root_provider_id = id WHERE root_provider_id IS NULL")
    op.execute("UPDATE resource_providers SET of_node = true WHERE uuid IN (SELECT uuid FROM compute_nodes)")
