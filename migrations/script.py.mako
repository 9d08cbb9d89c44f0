"""${message}

Expand only: what the schema before this one serves must work with this one too, because services of both versions run
side by side while an upgrade rolls. A column or table that is not needed any more is dropped one revision later.

It may run twice, because MariaDB keeps the first part of an upgrade that was killed: statements that change rows change
only those that need it.
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
