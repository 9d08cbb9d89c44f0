"""Fills the times of the cloud clock that rows of an earlier release lack: when a server was shelved or soft-deleted, and when a
record was written. They get the present time.

Times go by the cloud clock. Each conductor's own clock may be hours or years away: with such a clock one conductor would destroy what
another one has just put aside.
"""

from collections.abc import Sequence

from minova.conductor.tasks.worker import TaskWorker
from minova.db.servers import unknown_times
from minova.db.servers.unknown_times import ClockColumn


def begin_unknown(worker: TaskWorker, columns: Sequence[ClockColumn]) -> None:
    with worker.db.read() as session:
        if not unknown_times.are_unknown(session, columns):
            return
    worker.run(lambda session: unknown_times.begin(session, columns, worker.now()))
