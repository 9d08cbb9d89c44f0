"""How many live migrations a host takes part in at once, counted in rows. The others wait, first come first served."""

from oslo_config import cfg
from sqlalchemy.orm import Session

from minova.db.hosts import compute_nodes
from minova.db.servers import migrations
from minova.objects.servers.migration import Migration


class LiveQueue:
    """`max_concurrent_live_migrations` is read each time, because it may change at run time."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def may_go(self, session: Session, migration: Migration) -> bool:
        """Whether it is the turn of this locked migration, whose destination is chosen, on both of its hosts. They are
        locked until the transaction ends, so that two conductors do not give away the same turn.
        """
        most = int(self._conf.max_concurrent_live_migrations)
        if most <= 0:
            return True
        places = sorted({(str(host), str(node)) for host, node in (migration.source, migration.dest)})
        for place in places:
            compute_nodes.find(session, *place, lock=True)
        return all(migrations.live_before(session, host, migration.uuid) < most for host, _ in places)

    def waiting(self, session: Session) -> list[str]:
        """Returns the instances whose live migrations wait, the first one first."""
        return migrations.queued(session)
