"""Background work that must not pile up: of several requests for the same work, only one runs at a time."""

import threading
from collections.abc import Callable, Hashable

Work = Callable[[], None]


class SingleFlight:
    """Gives work to `spawn`, unless the same work already waits or runs. Safe for threads."""

    def __init__(self, spawn: Callable[[Work], object]) -> None:
        self._spawn = spawn
        self._under_way: set[Hashable] = set()
        self._lock = threading.Lock()

    def __call__(self, what: Hashable, work: Work, spawn: Callable[[Work], object] | None = None) -> None:
        """`what` identifies the work; `spawn` replaces the default `spawn`. If `spawn` raises, that error is raised and
        the work does not count as running.
        """
        with self._lock:
            if what in self._under_way:
                return
            self._under_way.add(what)

        def run() -> None:
            try:
                work()
            finally:
                self._ended(what)

        try:
            (spawn or self._spawn)(run)
        except BaseException:
            self._ended(what)
            raise

    def _ended(self, what: Hashable) -> None:
        with self._lock:
            self._under_way.discard(what)
