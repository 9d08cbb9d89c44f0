"""${message}

Expand only: what the schema before this one serves must work with this one too, because services of both versions run
side by side while an upgrade rolls. It may be run twice, as MariaDB keeps the first part of an upgrade that was killed. A column or table that nobody needs any more is dropped one revision later.
"""

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}
