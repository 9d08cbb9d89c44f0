"""The places of requests that may take long: each project has its share of them, and a client that hardly moves its bytes gives
its place to others.

A request enters when its caller is known, and waits in its thread until there is a place. A place that is free goes to the
waiting owner that holds the fewest.
"""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable

from minova import errors
from minova.concurrency.fair_shares import STRETCH, FairShares

# Requests that wait for a place. Each has a thread.
MAX_WAITING = 256
# Seconds that a request waits before a slow transfer gives way for it.
PATIENCE = 2.0
# Seconds over which the speed of a transfer is measured, and the bytes per second below which it is slow.
WINDOW = 5.0
SLOW = 64 << 10
# Seconds between two looks of a waiting request.
LOOK = 0.5


class TooManyWait(errors.ServiceUnavailable):
    """The text is for the user."""


class RequestPlace:
    """The place of one request. `moved`: bytes from and to its client. `waits`: the request waits for its client now.

    `give_way` ends the request; None: it is never ended. `is_gone`: whether the client has gone.
    """

    def __init__(
        self, places: "RequestPlaces", give_way: Callable[[], None] | None, is_gone: Callable[[], bool]
    ) -> None:
        self._places = places
        self.owner: str | None = None
        self.give_way = give_way
        self.is_gone = is_gone
        self.moved = 0
        self.waits = False
        # Whether the request waits for a place.
        self.queued = False
        self.speed = Speed()
        self.has_given_way = False
        self.ready = threading.Event()
        self.refused = False

    def enter(self, owner: str) -> None:
        """Waits for a place. Does nothing if the request has one. Raises ServiceUnavailable if too many requests wait."""
        self._places.enter(self, owner)

    def leave(self) -> None:
        """Idempotent. Does nothing if the request has no place."""
        self._places.leave(self)


class Speed:
    """Bytes per second, over the last WINDOW seconds or more."""

    def __init__(self) -> None:
        self.last = math.inf
        self._since: tuple[float, int] | None = None

    def update(self, now: float, moved: int) -> None:
        if self._since is None:
            self._since = (now, moved)
            return
        at, before = self._since
        if now - at >= WINDOW:
            self.last = (moved - before) / (now - at)
            self._since = (now, moved)


class RequestPlaces:
    """Thread-safe. `count`: as in FairShares. `most`: the most requests that hold a place or wait for one."""

    def __init__(self, count: int, waiting: int = MAX_WAITING, clock: Callable[[], float] = time.monotonic) -> None:
        self._shares = FairShares(count)
        self._most_waiting = waiting
        self._clock = clock
        self._lock = threading.Lock()
        self._holding: set[RequestPlace] = set()
        # Since when each request waits, the longest waiting first.
        self._waiting: dict[RequestPlace, float] = {}
        self.most = count * STRETCH + waiting

    def place(
        self, give_way: Callable[[], None] | None = None, is_gone: Callable[[], bool] = lambda: False
    ) -> RequestPlace:
        return RequestPlace(self, give_way, is_gone)

    def enter(self, place: RequestPlace, owner: str) -> None:
        self.ask(place, owner)
        self.wait(place)

    def ask(self, place: RequestPlace, owner: str) -> None:
        """Takes a place, or else begins to wait for one. Raises ServiceUnavailable if too many requests wait."""
        with self._lock:
            if place.owner is not None:
                return
            place.owner = owner
            if self._shares.fits(owner):
                self._give(place, owner)
                return
            place.queued = True
            self._waiting[place] = self._clock()
            if len(self._waiting) > self._most_waiting:
                self._refuse_one()

    def wait(self, place: RequestPlace) -> None:
        """Waits until the place is there. Raises ServiceUnavailable if the request waits in vain."""
        while not place.ready.wait(LOOK):
            with self._lock:
                if place.is_gone() and place in self._waiting:
                    self._refuse(place)
                elif not place.ready.is_set():
                    self._make_one_give_way()
        if place.refused:
            raise TooManyWait("Too many requests of this kind are under way. Please try again later.")

    def leave(self, place: RequestPlace) -> None:
        with self._lock:
            if place in self._waiting:
                self._refuse(place)
            if place not in self._holding or place.owner is None:
                return
            self._holding.remove(place)
            self._shares.give(place.owner)
            while (following := self._following()) is not None:
                place = following
                del self._waiting[place]
                self._give(place, place.owner or "")

    # The caller of these holds the lock.

    def _give(self, place: RequestPlace, owner: str) -> None:
        self._shares.take(owner)
        self._holding.add(place)
        place.queued = False
        place.speed.update(self._clock(), place.moved)
        place.ready.set()

    def _following(self) -> RequestPlace | None:
        """Returns the request that has the next free place; None if there is none for those that wait."""
        first = {place.owner or "": place for place in reversed(self._waiting)}
        fitting = [owner for owner in reversed(first) if self._shares.fits(owner)]
        owner = min(fitting, key=self._shares.held, default=None)
        return None if owner is None else first[owner]

    def _held_by_its_owner(self, place: RequestPlace) -> int:
        return self._shares.held(place.owner or "")

    def _refuse_one(self) -> None:
        """Refuses the latest request of the owner with the most waiting requests."""
        counts = Counter(place.owner for place in self._waiting)
        self._refuse(max(reversed(self._waiting), key=lambda place: counts[place.owner]))

    def _refuse(self, place: RequestPlace) -> None:
        del self._waiting[place]
        place.queued, place.refused = False, True
        place.ready.set()

    def _make_one_give_way(self) -> None:
        """Makes one slow transfer give way if a request of an owner with fewer places has waited for PATIENCE. One
        at a time: those that give way need a moment to leave.
        """
        now = self._clock()
        for holding in self._holding:
            holding.speed.update(now, holding.moved)
        patient = [place for place, since in self._waiting.items() if now - since >= PATIENCE]
        if not patient or sum(place.has_given_way for place in self._holding) >= len(patient):
            return
        fewest = min(map(self._held_by_its_owner, patient))
        slow = [place for place in self._holding if _is_slow(place) and self._held_by_its_owner(place) > fewest]
        if slow:
            victim = max(slow, key=lambda place: (self._held_by_its_owner(place), -place.speed.last))
            victim.has_given_way = True
            assert victim.give_way is not None
            victim.give_way()


def _is_slow(place: RequestPlace) -> bool:
    can = place.give_way is not None and not place.has_given_way
    return can and place.waits and place.speed.last < SLOW
