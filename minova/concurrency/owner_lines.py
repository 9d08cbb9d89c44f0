"""A line of its own for the messages of each owner that has many, so that they do not wait before those of others."""

import threading
from collections import Counter, deque
from enum import Enum, auto
from typing import Generic, TypeVar

M = TypeVar("M")


class LineEntry(Enum):
    """What becomes of a message. LAST: it waits, and there is no room in the line for another one, for the first time since the line was
    empty.
    """

    NOW = auto()
    WAITS = auto()
    LAST = auto()
    DROPPED = auto()


class OwnerLines(Generic[M]):
    """Thread-safe. At most `places` messages of one owner are where the messages of all are; `most_waiting` wait in its line."""

    def __init__(self, places: int, most_waiting: int) -> None:
        self._places = places
        self._most_waiting = most_waiting
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self._lines: dict[str, deque[M]] = {}
        # Owners whose line has been full since it was empty.
        self._overflowed: set[str] = set()

    def enter(self, owner: str, message: M) -> LineEntry:
        """A message that waits is returned by a later `leave`."""
        with self._lock:
            if self._held[owner] < self._places:
                self._held[owner] += 1
                return LineEntry.NOW
            line = self._lines.setdefault(owner, deque())
            if len(line) >= self._most_waiting:
                return LineEntry.DROPPED
            line.append(message)
            if len(line) < self._most_waiting or owner in self._overflowed:
                return LineEntry.WAITS
            self._overflowed.add(owner)
            return LineEntry.LAST

    def leave(self, owner: str) -> M | None:
        """A message of the owner is done. Returns the one that takes its place; None: no message waits."""
        with self._lock:
            line = self._lines.get(owner)
            if line:
                return line.popleft()
            self._lines.pop(owner, None)
            self._overflowed.discard(owner)
            self._held[owner] -= 1
            if not self._held[owner]:
                del self._held[owner]
            return None
