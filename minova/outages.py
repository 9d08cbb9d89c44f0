"""Outages of dependencies. The log gets one line when an outage begins and one when it ends."""

import logging
import threading
import time
from collections.abc import Callable


class Outage:
    """Whether `what` answers now. Safe for threads."""

    def __init__(self, what: str, log: logging.Logger, ticks: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._log = log
        self._ticks = ticks
        self._lock = threading.Lock()
        self._since: float | None = None
        self._failures = 0
        self._last = float("-inf")

    def failed(self, reason: object) -> None:
        """Logs the first failure with its reason as a warning; later failures are counted and logged at debug level."""
        with self._lock:
            self._failures += 1
            self._last = self._ticks()
            first = self._since is None
            if first:
                self._since = self._last
        if first:
            self._log.warning("%s does not answer: %s", self._what, reason)
        else:
            self._log.debug("%s still does not answer: %s", self._what, reason)

    def failed_within(self, seconds: float) -> bool:
        """Returns whether the outage continues and the last failure was less than `seconds` ago."""
        with self._lock:
            return self._since is not None and self._ticks() - self._last < seconds

    def answered(self) -> None:
        if self._since is None:
            return
        with self._lock:
            since, failures = self._since, self._failures
            self._since, self._failures = None, 0
        if since is not None:
            self._log.warning(
                "%s answers again after %.1f s; %d more failures were not logged",
                self._what,
                self._ticks() - since,
                failures - 1,
            )


class FirstOfEachKind:
    """A log filter for libraries that repeat themselves. It passes the first line of each kind, and the next one after
    a minute without any line of that kind. A kind is the message before its arguments are inserted.
    """

    QUIET = 60.0

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._lock = threading.Lock()
        self._last: dict[tuple[int, str], float] = {}

    def __call__(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        kind, now = (record.levelno, str(record.msg)), self._ticks()
        with self._lock:
            before = self._last.get(kind)
            self._last[kind] = now
            if len(self._last) > 1000:  # too many kinds: these messages already contain their arguments
                self._last = {kind: now}
        return before is None or now - before > self.QUIET
