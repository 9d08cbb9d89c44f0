"""The one loop in which tests wait for a condition.

A pause of fixed length stands in a test only where time is what is tested: an outage of that length, a rate, a moment at random, or a time in
which nothing may happen.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(what: str, ask: Callable[[], T | None], timeout: float = 120.0, *, pause: float = 0.05) -> T:
    """Returns the first true answer of `ask`. Raises AssertionError, which names `what`, if there is none in time.

    `pause`: seconds between two questions. A question that takes longer is asked more rarely.
    """
    until = time.monotonic() + timeout
    while True:
        asked_at = time.monotonic()
        answer = ask()
        if answer:
            return answer
        now = time.monotonic()
        assert now < until, f"{what}: not within {timeout:g} s"
        # A question that is a command takes as much of a processor as what it waits for, which should have the most of it.
        time.sleep(min(max(pause, 2 * (now - asked_at)), 1.0))
