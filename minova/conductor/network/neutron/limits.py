"""Limits how many threads of a conductor may wait for Neutron: a Neutron that hangs must not block all other work."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from minova import errors
from minova.backoff import Backoff

LOG = logging.getLogger(__name__)
K = TypeVar("K")
# The most servers for which hosts and events may use Neutron at the same time.
MAX_SERVERS = 4
# Seconds until a failed piece of work is tried again: doubled each time.
BACKOFF = Backoff(first=2.0, longest=600.0)
# After so many requests in a row without an answer, Neutron counts as away, and the rest of the round is skipped.
AWAY = 3


class InstanceLocks:
    """Allows one piece of work at a time for each server, in this process; and of `take`, at most `limit` for all
    servers. Safe for threads.
    """

    def __init__(self, limit: int = MAX_SERVERS) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._servers: set[str] = set()
        self._taken = 0

    @contextmanager
    def take(self, instance_uuid: str) -> Iterator[None]:
        """Raises ServiceUnavailable at once instead of waiting."""
        with self.exclusively(instance_uuid):
            with self._lock:
                if self._taken >= self._limit:
                    raise errors.ServiceUnavailable("Too many servers wait for the network service here.")
                self._taken += 1
            try:
                yield
            finally:
                with self._lock:
                    self._taken -= 1

    @contextmanager
    def exclusively(self, instance_uuid: str) -> Iterator[None]:
        """For work of a single thread, which does not count for `limit`. Raises ServiceUnavailable at once instead of
        waiting.
        """
        with self._lock:
            if instance_uuid in self._servers:
                raise errors.ServiceUnavailable(f"The ports of instance {instance_uuid} are being worked on already.")
            self._servers.add(instance_uuid)
        try:
            yield
        finally:
            with self._lock:
                self._servers.discard(instance_uuid)


class RetryQueue(Generic[K]):
    """Repeats work for many keys, in one thread. A failed key waits longer each time, and comes after the others.

    The state is in memory, so a restarted process begins at once. `ticks`: seconds, monotonic.
    """

    def __init__(self, what: str, ticks: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._ticks = ticks
        self._failed: dict[K, tuple[int, float]] = {}  # key: number of failures, and until when it waits

    @property
    def failing(self) -> int:
        """The number of keys by which the caller must extend its query, so that failing keys do not hide others."""
        return len(self._failed)

    def due(self, keys: Collection[K], limit: int) -> Sequence[K]:
        """Returns the keys to process now, in order. `keys`: all known keys that are left."""
        self._failed = {key: failure for key, failure in self._failed.items() if key in keys}
        now = self._ticks()
        fresh = [key for key in keys if key not in self._failed]
        again = [key for key, (_, until) in self._failed.items() if until <= now]
        return (fresh + again)[:limit]

    def run(self, keys: Sequence[K], work: Callable[[K], None]) -> None:
        """Logs the error of each key. Ends early if Neutron is away."""
        unanswered = 0
        for key in keys:
            try:
                work(key)
            except errors.MinovaError as error:
                unanswered = unanswered + 1 if isinstance(error, errors.ServiceUnavailable) else 0
                LOG.warning("%s %s: %s", self._what, key, error)
            except Exception:
                LOG.exception("%s %s", self._what, key)
                unanswered = 0
            else:
                self._failed.pop(key, None)
                unanswered = 0
                continue
            failures = self._failed.get(key, (0, 0.0))[0] + 1
            # A failed key moves to the end of the dictionary, so that failed keys are tried in the order of their
            # failures.
            self._failed.pop(key, None)
            self._failed[key] = (failures, self._ticks() + BACKOFF.pause(failures))
            if unanswered >= AWAY:
                return
