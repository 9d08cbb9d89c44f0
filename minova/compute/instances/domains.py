"""State that builds, deletions and audits of a host share: locks by instance, and domains that could not be removed
yet.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from oslo_concurrency import lockutils

from minova.compute.guest_records import GuestRecords
from minova.errors import ServiceUnavailable
from minova.virt.driver.domains import DomainDriver, RowHost

LOG = logging.getLogger(__name__)


class Domains:
    """Removes domains; remembers those that could not be removed, to try them again. Safe for threads.

    `records`: of the guests; a removed guest has none.
    """

    def __init__(self, driver: DomainDriver, records: GuestRecords | None = None) -> None:
        self._driver = driver
        self.records = records or GuestRecords()
        self._left: set[str] = set()
        self._lock = threading.Lock()
        self._by_instance = lockutils.Semaphores()

    def locked(self, instance_uuid: str) -> AbstractContextManager[object]:
        """The lock of one instance: builds and removals on this host take it."""
        return lockutils.lock(instance_uuid, semaphores=self._by_instance, do_log=False)

    @contextmanager
    def locked_at_once(self, instance_uuid: str) -> Iterator[None]:
        """As `locked`. Raises ServiceUnavailable if the instance is being worked on."""
        with ExitStack() as stack:
            try:
                stack.enter_context(
                    lockutils.lock(instance_uuid, semaphores=self._by_instance, do_log=False, blocking=False)
                )
            except lockutils.AcquireLockFailedException:
                raise ServiceUnavailable(f"Instance {instance_uuid} is being worked on.") from None
            yield

    def destroy(self, instance_uuid: str, row: RowHost) -> None:
        """Remove the domain. Raises the errors of the driver; then the domain stays in `left`."""
        with self._lock:
            self._left.add(instance_uuid)
        self._driver.destroy(instance_uuid, row)
        self.records.forget(instance_uuid)
        with self._lock:
            self._left.discard(instance_uuid)

    def try_destroy(self, instance_uuid: str, row: RowHost) -> bool:
        """Remove the domain and return whether it is gone. Never raises: an error is logged, and an audit tries
        again.
        """
        try:
            self.destroy(instance_uuid, row)
        except Exception as error:  # noqa: BLE001  - a clean-up that fails must not hide why it was needed
            LOG.warning("Domain of instance %s could not be removed, an audit tries again: %s", instance_uuid, error)
            return False
        return True

    def reused(self, instance_uuid: str) -> None:
        """A build creates the domain anew, so its remains need no removal any more."""
        with self._lock:
            self._left.discard(instance_uuid)

    def left(self) -> tuple[str, ...]:
        """Returns the instances whose domains could not be removed yet."""
        with self._lock:
            return tuple(sorted(self._left))
