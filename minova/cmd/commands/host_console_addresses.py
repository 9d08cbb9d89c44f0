"""`minova-manage host console-addresses`: where a compute host serves the consoles of its guests."""

from oslo_config import cfg

from minova.cmd.startup import database
from minova.conductor.hosts import console_addresses
from minova.db.schema import require_schema


def run(conf: cfg.ConfigOpts) -> None:
    """Raises NotFound, Conflict or BadRequest; then nothing was changed."""
    command = conf.command
    db = database.opened(conf, readonly=False)
    try:
        require_schema(db)
        recorded = db.run(lambda session: console_addresses.assign(session, command.compute_host, command.addresses))
    finally:
        db.close()
    print(f"Host {command.compute_host} serves consoles at {', '.join(recorded) or 'loopback addresses alone'}.")
