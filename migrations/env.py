"""Runs the migrations on the connection that `minova.db.upgrade` hands in: one transaction for all of them.

MariaDB and MySQL commit each change of a table. There an interrupted upgrade is completed by the next one:
`repeatable_ddl` skips what is there already.
"""

from alembic import context

from minova.db.connections import repeatable_ddl as _  # noqa: F401  Alembic finds its classes.
from minova.db.models import Base
from minova.db.schema import TABLE

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True, version_table=TABLE)
context.run_migrations()
