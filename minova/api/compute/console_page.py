"""Whether the console proxy serves the page of noVNC to which addresses of screens lead."""

import logging
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import urllib3

from minova import errors

LOG = logging.getLogger(__name__)
# Seconds to wait for the proxy. A user waits for the address meanwhile.
PATIENCE = 2.0
# Seconds for which an answer holds: an installed page is seen soon. A proxy that browsers alone can reach is asked rarely.
ANSWERED, UNREACHABLE = 10.0, 300.0
# A console proxy without page answers 404, one of an earlier release 405.
NO_PAGE = (404, 405)


class _CheckedProxy(NamedTuple):
    refusal: str
    until: float


class ConsolePage:
    """Remembers the answers, by address. Safe for threads. `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, _CheckedProxy] = {}
        self._pool = urllib3.PoolManager(retries=False, timeout=PATIENCE)

    def require(self, url: str) -> None:
        """Raises ConsoleTypeUnavailable if the proxy answers that it has no page. A proxy that this machine cannot
        reach passes: browsers may reach it.
        """
        with self._lock:
            checked = self._seen.get(url)
        if checked is None or checked.until <= self._clock():
            checked = self._ask(url)
            with self._lock:
                self._seen[url] = checked
        if checked.refusal:
            raise errors.ConsoleTypeUnavailable(checked.refusal)

    def _ask(self, url: str) -> _CheckedProxy:
        try:
            # Not HEAD, which load balancers may refuse. The page itself is not read.
            answer = self._pool.request("GET", url, preload_content=False, redirect=False)
            answer.close()
        except urllib3.exceptions.HTTPError as error:
            LOG.info("Whether the console proxy at %s has a page is not known: %s", url, error)
            return _CheckedProxy("", self._clock() + UNREACHABLE)
        refusal = ""
        if answer.status in NO_PAGE:
            refusal = (
                f"Unavailable console type novnc: the console proxy at {url} has no page of noVNC (it answers {answer.status}). Its "
                "administrator can install the package novnc, or set [consoleproxy] web, and restart minova-consoleproxy. "
                "A serial console needs no page."
            )
        return _CheckedProxy(refusal, self._clock() + ANSWERED)
