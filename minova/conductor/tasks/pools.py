"""Background threads of a conductor: a bounded pool for each kind of work, so that one kind never waits behind another."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from enum import StrEnum

LOG = logging.getLogger(__name__)
Work = Callable[[], None]


class Kind(StrEnum):
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


class Pool:
    """Up to `size` daemon threads, which start on demand and take work in the order of its arrival."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._changed = threading.Condition()
        self._waiting: deque[Work] = deque()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._stopped = False

    def spawn(self, work: Work) -> bool:
        """Run `work` soon. Returns whether it was accepted: after `stop` it is dropped."""
        with self._changed:
            if self._stopped:
                return False
            self._waiting.append(work)
            if self._idle < len(self._waiting) and len(self._threads) < self._size:
                thread = threading.Thread(target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    if not self._threads:
                        self._waiting.pop()  # nothing would ever run it
                        raise
                    LOG.warning("No further thread of %s could be started", self._name)
                else:
                    self._threads.append(thread)
            self._changed.notify()
        return True

    def stop(self) -> None:
        """Drop the waiting work. Running work continues; see `join`."""
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            self._changed.notify_all()

    def join(self, seconds: float) -> None:
        """Call after `stop`: waits for running work, up to `seconds`."""
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except Exception:
                LOG.exception("Error in %s", self._name)

    def _next(self) -> Work | None:
        with self._changed:
            self._idle += 1
            try:
                while not self._waiting and not self._stopped:
                    self._changed.wait()
                return self._waiting.popleft() if self._waiting else None
            finally:
                self._idle -= 1


class Pools:
    """One pool for each kind of work. `schedule`: threads that wait for schedulers."""

    def __init__(self, schedule: int) -> None:
        self._pools = {kind: Pool(kind, schedule if kind is Kind.SCHEDULE else THREADS) for kind in Kind}

    def spawn(self, kind: Kind, work: Work) -> bool:
        return self._pools[kind].spawn(work)

    def stop(self, seconds: float) -> None:
        """Accept no new work, and wait for running work up to `seconds`, except in threads that wait for a
        scheduler.
        """
        for pool in self._pools.values():
            pool.stop()
        until = time.monotonic() + seconds
        for kind, pool in self._pools.items():
            if kind is not Kind.SCHEDULE:
                pool.join(max(0.0, until - time.monotonic()))
