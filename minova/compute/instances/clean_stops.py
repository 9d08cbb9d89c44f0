"""Stops guests that run although they must not, by their own clean shutdown alone. No audit destroys a domain that runs:
the row may be wrong, and the memory of a guest cannot be brought back.

    found running ----> asked to shut down ----> off
                                |
                                v ignored within its time
                           left running, with a warning ----> asked again an hour later

It waits with the lock of the instance, so the wait is bounded by the operator alone, and any action for the instance ends it.
The guest goes on shutting down. The power state in the row shows that the guest runs. A start makes the server ACTIVE again and leaves the guest alone; a
hard reboot or a deletion ends it.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from minova.objects.servers.instance import Instance
from minova.virt.driver.power import PowerDriver

LOG = logging.getLogger(__name__)
# Seconds until a guest that has ignored the request is asked again.
ASK_AGAIN = 3600.0
# Seconds for a guest to shut down where none are configured: 0 means that a user's stop does not wait for it.
DEFAULT_TIMEOUT = 60.0


class CleanStops:
    """Safe for threads. `timeout` returns the configured seconds for a guest to shut down; `clock` returns monotonic
    seconds.
    """

    def __init__(
        self, driver: PowerDriver, timeout: Callable[[], float], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._driver = driver
        self._timeout = timeout
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[str, threading.Event] = {}
        self._users: Counter[str] = Counter()
        # {instance uuid: when it may be asked again}
        self._ignored: dict[str, float] = {}

    def ask(self, instance_uuid: str, reason: str, instance: Instance | None = None) -> None:
        """Ask the guest to shut down and wait for that, unless it has ignored such a request recently, or `cancel` was called
        since `checking` began. The caller holds the instance's lock. `instance` None: it has no row any more. Raises the
        errors of the driver.
        """
        with self._lock:
            if self._clock() < self._ignored.get(instance_uuid, float("-inf")):
                return
        with self.checking(instance_uuid) as cancelled:
            if cancelled.is_set():
                return
            LOG.warning("The guest of instance %s is asked to shut down: %s", instance_uuid, reason)
            is_down = self._driver.shut_down(instance_uuid, self._seconds(instance), cancelled)
        with self._lock:
            self._ignored.pop(instance_uuid, None)
            if not is_down:
                self._ignored[instance_uuid] = self._clock() + ASK_AGAIN
        if not is_down:
            LOG.warning("The guest of instance %s does not shut down, and is left running", instance_uuid)

    @contextmanager
    def checking(self, instance_uuid: str) -> Iterator[threading.Event]:
        """Whether the guest must shut down is looked at here: a `cancel` from now on prevents the request.

        Work that can wait holds the instance's lock inside of it, too, and ends it once the event is set.
        """
        with self._lock:
            cancelled = self._waiting.setdefault(instance_uuid, threading.Event())
            self._users[instance_uuid] += 1
        try:
            yield cancelled
        finally:
            with self._lock:
                self._users[instance_uuid] -= 1
                if not self._users[instance_uuid]:
                    del self._users[instance_uuid], self._waiting[instance_uuid]

    def _seconds(self, instance: Instance | None) -> float:
        """Returns how long to wait: an image may shorten the configured time, not lengthen it."""
        longest = self._timeout() or DEFAULT_TIMEOUT
        image_timeout = longest if instance is None else shutdown_timeout(instance, longest)
        return min(image_timeout or longest, longest)

    def cancel(self, instance_uuid: str) -> None:
        """End the wait for this guest, because it is to be removed or an action for it has come."""
        with self._lock:
            waiting = self._waiting.get(instance_uuid)
        if waiting is not None:
            waiting.set()


def shutdown_timeout(instance: Instance, default: float) -> float:
    """Returns the seconds that the guest has to shut itself down: from its image, else as configured."""
    from_image = instance.image.properties.get("os_shutdown_timeout") if instance.image is not None else None
    if from_image is None:
        return float(default)
    try:
        return max(0.0, float(int(from_image)))
    except ValueError:
        LOG.warning("os_shutdown_timeout of image %s is no number: %r", instance.image_ref, from_image)
        return float(default)
