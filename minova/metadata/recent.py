"""Recent answers and rates of requests, by caller. The number of callers is bounded."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")
# The most callers that are kept.
MAX_CALLERS = 1024
# Requests per second of one caller, and the most requests that it may save up: a boot sends some 30 at once.
RATE, BURST = 20.0, 100.0


class Recent(Generic[V]):
    """Caches values, and errors, for some seconds.

    Thread-safe: if several requests of one caller come at the same time, one of them reads.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, _Entry[V]] = OrderedDict()

    def get(self, caller: Hashable, read: Callable[[], V], kept: type[Exception]) -> V:
        """Returns the value, from the cache or from `read`. Raises the errors of `read`; errors of the type `kept` are
        cached as values are.
        """
        with self._lock:
            entry = self._entries.pop(caller, None)
            if entry is None or entry.read_at + self._seconds <= self._clock():
                entry = _Entry(self._clock())
            self._entries[caller] = entry
            if len(self._entries) > MAX_CALLERS:
                self._entries.popitem(last=False)
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
    """`read_at`: when the reading began. The cached value is at least as new."""

    def __init__(self, read_at: float) -> None:
        self.read_at = read_at
        self.lock = threading.Lock()
        self.value: V | None = None
        self.error: Exception | None = None


class Rates:
    """Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # The requests that each caller may still send, and the time of that count.
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, caller: Hashable) -> bool:
        """Takes one request of the caller. Returns False if it has none left."""
        now = self._clock()
        with self._lock:
            left, at = self._left.pop(caller, (BURST, now))
            left = min(BURST, left + (now - at) * RATE)
            self._left[caller] = (left - 1 if left >= 1 else left, now)
            if len(self._left) > MAX_CALLERS:
                self._left.popitem(last=False)
            return left >= 1
