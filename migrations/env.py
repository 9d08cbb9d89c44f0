"""Runs the migrations on the connection that `minova.db.schema` hands in: one transaction for all of them."""

from alembic import context

from minova.db.models import Base
from minova.db.schema import TABLE

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True, version_table=TABLE)
context.run_migrations()
