"""Ids of deleted images, which are never used again. Images that servers still name were deleted before."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "deleted_images", sa.Column("id", sa.String(36), nullable=False), sa.PrimaryKeyConstraint("id"), **EXACT
    )
    op.execute(
        "INSERT INTO deleted_images (id) SELECT DISTINCT image_ref FROM instances "
        "WHERE length(image_ref) = 36 AND image_ref NOT IN (SELECT id FROM images) "
        "AND image_ref NOT IN (SELECT id FROM deleted_images)"
    )
