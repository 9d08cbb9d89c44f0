"""What the interfaces of this host let through, kept as the conductor says."""

import logging
import threading

from minova import errors
from minova.context import service_context
from minova.contracts.conductor import ConductorApi
from minova.virt.driver import Driver

LOG = logging.getLogger(__name__)


class Interfaces:
    """Safe for threads. Requests that come while one is worked on are worked on once, after it."""

    def __init__(self, host: str, driver: Driver, conductor: ConductorApi) -> None:
        self._host = host
        self._driver = driver
        self._conductor = conductor
        self._lock = threading.Lock()
        self._wanted = False

    def request(self) -> None:
        """The next `refresh` works, also one that works already."""
        self._wanted = True

    def refresh(self) -> None:
        while self._wanted and self._lock.acquire(blocking=False):
            try:
                self._wanted = False
                self._refresh()
            finally:
                self._lock.release()

    def _refresh(self) -> None:
        try:
            vifs = self._conductor.interfaces_of_host(service_context(), host=self._host)
        except errors.PeerTooOld:  # during an upgrade: it knows no interfaces
            return
        self._driver.refresh_interfaces(vifs)
