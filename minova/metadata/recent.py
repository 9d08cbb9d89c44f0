"""Recent answers and rates of requests, by caller. The number of callers is bounded."""

import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from cachetools import LRUCache, TTLCache

V = TypeVar("V")
# The most callers that are kept.
MAX_CALLERS = 1024
# Requests per second of one caller, and the most requests that it may save up: a boot sends some 30 at once.
RATE, BURST = 20.0, 100.0


class RecentValues(Generic[V]):
    """Caches values, and errors, for some seconds from the beginning of their reading.

    Thread-safe: if several requests of one caller come at the same time, one of them reads.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._entries: TTLCache[Hashable, _Entry[V]] = TTLCache(MAX_CALLERS, seconds, clock)

    def get(self, caller: Hashable, read: Callable[[], V], kept: type[Exception]) -> V:
        """Returns the value, from the cache or from `read`. Raises the errors of `read`; errors of the type `kept` are
        cached as values are.
        """
        with self._lock:
            entry = self._entries.get(caller)
            if entry is None:
                entry = self._entries[caller] = _Entry()
        with entry.lock:
            if entry.error is not None:
                raise entry.error
            if entry.value is None:
                try:
                    entry.value = read()
                except kept as error:
                    entry.error = error
                    raise
            return entry.value

    def forget(self, caller: Hashable) -> None:
        with self._lock:
            self._entries.pop(caller, None)


class _Entry(Generic[V]):
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.value: V | None = None
        self.error: Exception | None = None


class Rates:
    """Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # The requests that each caller may still send, and the time of that count.
        self._left: LRUCache[Hashable, tuple[float, float]] = LRUCache(MAX_CALLERS)

    def take(self, caller: Hashable) -> bool:
        """Takes one request of the caller. Returns False if it has none left."""
        return self._count(caller, 1)

    def has_left(self, caller: Hashable) -> bool:
        """Returns whether the caller could take a request."""
        return self._count(caller, 0)

    def _count(self, caller: Hashable, requests: int) -> bool:
        now = self._clock()
        with self._lock:
            tokens, at = self._left.get(caller, (BURST, now))
            tokens = min(BURST, tokens + (now - at) * RATE)
            self._left[caller] = (tokens - requests if tokens >= 1 else tokens, now)
            return tokens >= 1
