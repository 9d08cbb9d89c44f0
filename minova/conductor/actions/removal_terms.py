"""When the time of servers begins after which they leave their hosts or are removed for good.

It goes by the cloud clock. Each conductor's own clock may be hours or years away: with such a clock one conductor would destroy what
another one has just put aside.
"""

from minova.conductor.tasks.worker import TaskWorker
from minova.db.servers import instances


def begin_unknown(worker: TaskWorker) -> None:
    """The time of servers that a release before these times has shelved or soft-deleted begins now."""
    with worker.db.read() as session:
        if not instances.has_unknown_terms(session):
            return
    worker.run(lambda session: instances.begin_unknown_terms(session, worker.now()))
