"""Background work that must not pile up: what is asked for again and again is begun once at a time."""

import threading
from collections.abc import Callable, Hashable

Work = Callable[[], None]


class Once:
    """Hands work to `spawn`, unless the same waits or runs already. Safe for threads."""

    def __init__(self, spawn: Callable[[Work], None]) -> None:
        self._spawn = spawn
        self._under_way: set[Hashable] = set()
        self._lock = threading.Lock()

    def __call__(self, what: Hashable, work: Work, spawn: Callable[[Work], None] | None = None) -> None:
        """`what` tells which work it is; `spawn` stands in for the usual one. Raises what `spawn` raises; then the work is not under way."""
        with self._lock:
            if what in self._under_way:
                return
            self._under_way.add(what)

        def whole() -> None:
            try:
                work()
            finally:
                self._ended(what)

        try:
            (spawn or self._spawn)(whole)
        except BaseException:
            self._ended(what)
            raise

    def _ended(self, what: Hashable) -> None:
        with self._lock:
            self._under_way.discard(what)
