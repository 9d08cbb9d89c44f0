"""What Placement's whole model needs: resource classes, traits, consumer types, times."""

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass
