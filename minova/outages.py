"""Outages of dependencies. The log gets one line when an outage begins, one when its reason changes, one each ten minutes, and
one when it ends.
"""

import logging
import re
import threading
import time
from collections.abc import Callable

from minova.metrics import DEPENDENCY_UP

# Seconds between lines about an outage that goes on for the same reason.
REMINDER = 600.0
MOST_KINDS = 20
# The attribute of log records to which no formatter appends the exception that is being handled (`minova.log`).
HAS_REASON = "minova_has_reason"
# Numbers differ from one failure to the next of the same kind: ports, times, addresses of objects.
_NUMBERS = re.compile(r"0x[0-9a-f]+|[0-9][0-9.]*")
# Words with a digit: UUIDs, ports, times.
_IDENTIFIERS = re.compile(r"(?<![\w-])[\w-]*\d[\w.-]*")


def kind_of(reason: object) -> str:
    """Returns the reason without its numbers."""
    return _NUMBERS.sub("", str(reason))


class Failures:
    """The failures of one outage. The log gets a line for the first, for the first one of each kind, and for one each ten minutes.
    Not safe for threads. `since`: when the first came; None: there is no outage.
    """

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        # Kinds of failures that were logged, and when the last line was.
        self._logged: set[str] = set()
        self._said = float("-inf")
        self.since: float | None = None
        self.count = 0

    def note(self, kind: str) -> bool:
        """Counts a failure, and returns whether it gets a line."""
        now = self._ticks()
        if self.since is None:
            self.since = now
        self.count += 1
        is_new = kind not in self._logged or now - self._said >= REMINDER
        if is_new:
            if len(self._logged) >= MOST_KINDS:  # these texts have more that differs than numbers
                self._logged.clear()
            self._logged.add(kind)
            self._said = now
        return is_new

    @property
    def lasted(self) -> float:
        """Seconds since the first failure."""
        since = self.since
        return 0.0 if since is None else self._ticks() - since

    def clear(self) -> None:
        """The outage has ended."""
        self._logged.clear()
        self.since, self.count = None, 0


class Outage:
    """Whether `what` answers now. Safe for threads. `gauge`: its label on the page of metrics."""

    def __init__(
        self, what: str, log: logging.Logger, ticks: Callable[[], float] = time.monotonic, *, gauge: str
    ) -> None:
        self._what = what
        self._gauge = DEPENDENCY_UP.labels(gauge)
        self._gauge.set(1)
        self._log = log
        self._ticks = ticks
        self._lock = threading.Lock()
        self._failures = Failures(lambda: self._ticks())  # noqa: PLW0108  - tests exchange the clock
        self._ended = float("-inf")
        self._last = float("-inf")

    def failed(self, reason: object, kind: str | None = None) -> None:
        """Logs the failures that get a line as warnings; others are logged at debug level. Reasons of one `kind` count as one; by
        default its text without numbers.
        """
        with self._lock:
            is_new = self._failures.note(kind_of(reason) if kind is None else kind)
            self._last = self._ticks()
            first, lasted = self._failures.count == 1, self._failures.lasted
            if first:
                self._gauge.set(0)
        if first:
            self._say(logging.WARNING, "%s does not answer: %s", self._what, reason)
        else:
            level = logging.WARNING if is_new else logging.DEBUG
            self._say(level, "%s has not answered for %.0f s: %s", self._what, lasted, reason)

    def failed_within(self, seconds: float) -> bool:
        """Returns whether the outage continues and the last failure was less than `seconds` ago."""
        with self._lock:
            return self._failures.since is not None and self._ticks() - self._last < seconds

    def began_within(self, seconds: float) -> bool:
        """Returns whether the outage continues and began less than `seconds` ago, or there is none."""
        return self._failures.lasted < seconds

    def ended_within(self, seconds: float) -> bool:
        """Returns whether an outage ended less than `seconds` ago."""
        return self._ticks() - self._ended < seconds

    def answered(self) -> None:
        if self._failures.since is None:
            return
        with self._lock:
            lasted, count = self._failures.lasted, self._failures.count
            self._failures.clear()
            self._ended = self._ticks()
            self._gauge.set(1)
        if count:
            self._say(
                logging.WARNING,
                "%s answers again after %.1f s; %d more failures were not logged",
                self._what,
                lasted,
                count - 1,
            )

    def _say(self, level: int, text: str, *arguments: object) -> None:
        """Logs the line. The exception that this thread is handling is the reason again, or, at the end of an outage, wrong."""
        self._log.log(level, text, *arguments, extra={HAS_REASON: True})


class FirstOfEachKind:
    """A log filter for libraries that repeat themselves. It passes the first line of each kind, and the next one after
    a minute without any line of that kind. A kind is the message without numbers and identifiers: "refused" and "certificate has
    expired" are two kinds.
    """

    QUIET = 60.0

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._lock = threading.Lock()
        self._last: dict[tuple[int, str], float] = {}

    def __call__(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        kind, now = (record.levelno, _IDENTIFIERS.sub("", record.getMessage())), self._ticks()
        with self._lock:
            before = self._last.get(kind)
            self._last[kind] = now
            if len(self._last) > 1000:  # too many kinds: these messages have more that differs
                self._last = {kind: now}
        return before is None or now - before > self.QUIET
