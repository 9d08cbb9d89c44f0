"""Retries of calls that failed because the conductor, broker or database was unavailable."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from minova import errors
from minova.backoff import Backoff

LOG = logging.getLogger(__name__)
T = TypeVar("T")

# The end of an outage is noticed within the longest pause.
BACKOFF = Backoff(first=0.1, longest=1.0)


def retry_call(what: str, ask: Callable[[], T], *, seconds: float, wait: Callable[[float], bool]) -> T:
    """Call `ask`, which must be safe to repeat, until it no longer raises ServiceUnavailable.

    `seconds`: no more tries after this time.
    `wait`: pauses, and returns whether this process stops; then there are no more tries either.

    Raises the last ServiceUnavailable. Raises PeerTooOld at once, because the caller may have another way.
    """
    begun, paused = time.monotonic(), 0.0
    for pause in BACKOFF.pauses():
        try:
            return ask()
        except errors.PeerTooOld:
            raise
        except errors.ServiceUnavailable as error:
            if max(paused, time.monotonic() - begun) >= seconds:
                raise
            if not paused:
                LOG.log(errors.level_of(error), "%s: %s; repeated for up to %.0f s", what, error, seconds)
            if wait(pause):
                raise
            paused += pause
    raise AssertionError("unreachable")
