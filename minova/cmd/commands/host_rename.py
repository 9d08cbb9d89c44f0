"""`minova-manage host rename`: gives a compute host or its node another name."""

from oslo_config import cfg

from minova.cmd.startup import database
from minova.conductor.hosts import rename
from minova.db.schema import require_schema


def run(conf: cfg.ConfigOpts) -> None:
    """Raises NotFound, Conflict or BadRequest; then nothing was changed."""
    command = conf.command
    db = database.opened(conf, readonly=False)
    try:
        require_schema(db)
        done = db.run(
            lambda session: rename.rename(
                session,
                command.old,
                command.new,
                command.node,
                down_time=float(conf.service_down_time),
                now=db.now(),
            )
        )
    finally:
        db.close()
    print(f"Host {done.old} is now {done.new}.")
    for before, after in done.nodes.items():
        print(f"Node {before} is now {after}." if before != after else f"Node {before} keeps its name.")
