"""Asking again when no answer came."""

import logging
from collections.abc import Callable
from typing import TypeVar

from minova import errors

LOG = logging.getLogger(__name__)
T = TypeVar("T")
TIMES = 3


def repeated(what: str, ask: Callable[[], T], times: int = TIMES) -> T:
    """Ask up to `times` times while nobody answers; only for what may be done twice.

    There is no pause: a call without an answer has waited long already. ServiceUnavailable: none came at all.
    """
    for left in range(times - 1, 0, -1):
        try:
            return ask()
        except errors.ServiceUnavailable as error:
            LOG.warning("%s: %s; asking again, %d left", what, error, left)
    return ask()
