"""Repeats calls of a compute to a conductor that is away or has no database."""

import time
from collections.abc import Callable
from typing import TypeVar

from minova.retry import retry_call

T = TypeVar("T")
# Seconds. Meanwhile no other host can continue either: giving up earlier would only fail builds of healthy hosts.
PATIENCE = 600.0


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


class ConductorRetry:
    """Only for calls that are safe to repeat. `wait` pauses and returns whether the compute stops."""

    def __init__(self, wait: Callable[[float], bool] = _sleep, seconds: float = PATIENCE) -> None:
        self._wait = wait
        self._seconds = seconds

    def __call__(self, what: str, ask: Callable[[], T], seconds: float | None = None) -> T:
        """Raises ServiceUnavailable if there is no answer for that long, or if the compute stops."""
        return retry_call(what, ask, seconds=self._seconds if seconds is None else seconds, wait=self._wait)
