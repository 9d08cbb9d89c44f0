"""Tags of networks, subnets, ports and security groups; whether ports of a network are secured; DHCP options of ports;
for which ports a subnet is.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None

EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
# Without padding: "a" and "a " are two tags.
TAG = sa.String(255).with_variant(mysql.VARCHAR(255, collation="utf8mb4_nopad_bin"), "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "network_tags",
        sa.Column("resource_id", sa.String(36), nullable=False),
        sa.Column("tag", TAG, nullable=False),
        sa.PrimaryKeyConstraint("resource_id", "tag"),
        **EXACT,
    )
    op.create_index("network_tags_tag", "network_tags", ["tag"])
    op.add_column(
        "networks", sa.Column("port_security_enabled", sa.Boolean(), nullable=False, server_default=sa.true())
    )
    op.add_column("ports", sa.Column("extra_dhcp_opts", sa.JSON(), nullable=True))
    op.add_column("subnets", sa.Column("service_types", sa.JSON(), nullable=True))
