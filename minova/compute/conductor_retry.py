"""Repeats calls of a compute to a conductor that is away or has no database."""

import time
from collections.abc import Callable
from typing import TypeVar

from minova import errors
from minova.retry import BACKOFF, retry_call
from minova.safe_mode import SafeMode

T = TypeVar("T")
# Seconds. Meanwhile no other host can continue either: giving up earlier would only fail builds of healthy hosts.
PATIENCE = 600.0


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


class ConductorRetry:
    """Only for calls that are safe to repeat. `wait` pauses and returns whether the compute stops. In safe mode it does
    not give up: a report waits until conductors take it again.
    """

    def __init__(
        self,
        wait: Callable[[float], bool] = _sleep,
        seconds: float = PATIENCE,
        safe_mode: SafeMode | None = None,
    ) -> None:
        self._wait = wait
        self._seconds = seconds
        self._safe_mode = safe_mode or SafeMode()

    def pause(self, seconds: float) -> bool:
        """Waits. Returns whether the compute stops."""
        return self._wait(seconds)

    def __call__(self, what: str, ask: Callable[[], T], seconds: float | None = None) -> T:
        """Raises ServiceUnavailable if there is no answer for that long, or if the compute stops."""
        while True:
            try:
                return retry_call(what, ask, seconds=self._seconds if seconds is None else seconds, wait=self._wait)
            except errors.PeerTooOld:
                raise
            except errors.ServiceUnavailable:
                if self._safe_mode.reason is None or self._wait(BACKOFF.longest):
                    raise
