"""What was answered a moment ago, and how many requests there were: by caller, and bounded in number."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")
# Callers that are remembered.
MOST_CALLERS = 1024
# Requests a second of one caller, and those it may save up: a boot asks some 30 at once.
RATE, BURST = 20.0, 100.0


class Recent(Generic[V]):
    """Values that are kept for some seconds, errors too. Safe for threads: of several requests of one caller at the same time
    one reads.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, _Entry[V]] = OrderedDict()

    def get(self, caller: Hashable, read: Callable[[], V], kept: type[Exception]) -> V:
        """Raises what `read` raises; errors of the kind `kept` for as long as values are kept."""
        with self._lock:
            entry = self._entries.pop(caller, None)
            if entry is None or entry.read_at + self._seconds <= self._clock():
                entry = _Entry(self._clock())
            self._entries[caller] = entry
            if len(self._entries) > MOST_CALLERS:
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
    """`read_at`: when the reading began, which what is kept is not younger than."""

    def __init__(self, read_at: float) -> None:
        self.read_at = read_at
        self.lock = threading.Lock()
        self.value: V | None = None
        self.error: Exception | None = None


class Rates:
    """Safe for threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # What each may still ask, and when that was so.
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, caller: Hashable) -> bool:
        """Whether the caller may ask once more."""
        now = self._clock()
        with self._lock:
            left, at = self._left.pop(caller, (BURST, now))
            left = min(BURST, left + (now - at) * RATE)
            self._left[caller] = (left - 1 if left >= 1 else left, now)
            if len(self._left) > MOST_CALLERS:
                self._left.popitem(last=False)
            return left >= 1
