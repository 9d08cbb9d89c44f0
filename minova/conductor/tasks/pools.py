"""Background threads of a conductor: a bounded pool for each kind of work, so that one kind never waits behind another."""

import time
from enum import StrEnum

from minova.concurrency.daemon_pool import DaemonPool, Work


class WorkKind(StrEnum):
    """SCHEDULE waits for a scheduler; the others never do. CAST and HINT wait while the broker is away, and HINT pauses
    between messages about interfaces.
    """

    SCHEDULE = "schedule"
    BUILD = "build"
    DELETE = "delete"
    ACTION = "action"
    CAST = "cast"
    HINT = "hint"


# Threads of each kind except SCHEDULE, whose number is an option.
THREADS = 4


class Pools:
    """One pool for each kind of work. `schedule`: threads that wait for schedulers."""

    def __init__(self, schedule: int) -> None:
        self._pools = {kind: DaemonPool(kind, schedule if kind is WorkKind.SCHEDULE else THREADS) for kind in WorkKind}

    def spawn(self, kind: WorkKind, work: Work) -> bool:
        return self._pools[kind].spawn(work)

    def stop(self, seconds: float) -> None:
        """Accept no new work, and wait for running work up to `seconds`, except in threads that wait for a
        scheduler.
        """
        for pool in self._pools.values():
            pool.stop(0.0)
        until = time.monotonic() + seconds
        for kind, pool in self._pools.items():
            if kind is not WorkKind.SCHEDULE:
                pool.stop(until)
