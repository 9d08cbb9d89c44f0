"""Shares of a few places among owners, such as projects."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

# Times the configured places: the most that are taken if many owners want their share at the same time.
STRETCH = 4


class FairShares:
    """Counts the places that each owner holds. One owner may hold all `places`. An owner with less than its share gets one even
    if others hold them all, so it does not wait for their work. Not thread-safe.

    The share is `places` divided by the owners that hold some. So n owners hold at most places * (1 + 1/2 + ... + 1/n), and
    never more than `most`; None: places * STRETCH.
    """

    def __init__(self, places: int, most: int | None = None) -> None:
        self._places = places
        self._most = places * STRETCH if most is None else most
        self._held: Counter[str] = Counter()

    def held(self, owner: str) -> int:
        return self._held[owner]

    def fits(self, owner: str) -> bool:
        """Whether the owner may take one more place now."""
        total = self._held.total()
        if total < self._places:
            return True
        owners = len(self._held.keys() | {owner})
        return total < self._most and self._held[owner] < max(1, self._places // owners)

    def take(self, owner: str) -> None:
        self._held[owner] += 1

    def give(self, owner: str) -> None:
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]


class NoPlace(Exception):
    """There is no place for this owner now."""


class SharedPlaces:
    """Places of work for which no other work waits: what does not fit is refused. Thread-safe."""

    def __init__(self, places: int, most: int | None = None) -> None:
        self._shares = FairShares(places, most)
        self._lock = threading.Lock()

    def take(self, owner: str, most_of_owner: int | None = None) -> None:
        """Raises NoPlace."""
        with self._lock:
            own_limit = most_of_owner is not None and self._shares.held(owner) >= most_of_owner
            if own_limit or not self._shares.fits(owner):
                raise NoPlace
            self._shares.take(owner)

    def give(self, owner: str) -> None:
        with self._lock:
            self._shares.give(owner)

    @contextmanager
    def held(self, owner: str, most_of_owner: int | None = None) -> Iterator[None]:
        """Raises NoPlace."""
        self.take(owner, most_of_owner)
        try:
            yield
        finally:
            self.give(owner)
