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
from minova.objects.servers.live_migration import GuestSide
from minova.objects.servers.states import PowerState
from minova.virt.driver import ComputeDriver
from minova.virt.driver.domains import DomainDriver, RowHost

LOG = logging.getLogger(__name__)


class Domains:
    """Removes domains; remembers those that could not be removed, to try them again. Safe for threads.

    `records`: of the guests; a removed guest has none.
    """

    def __init__(self, driver: DomainDriver, records: GuestRecords | None = None) -> None:
        self._driver = driver
        self.records = records or GuestRecords()
        # {instance uuid: the last attempt whose removal has failed}
        self._left: dict[str, int | None] = {}
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
        """Remove the domain. Raises the errors of the driver; then the caller tries again if that is still wanted."""
        self._driver.destroy(instance_uuid, row)
        self.records.forget(instance_uuid)
        self.reused(instance_uuid)

    def try_destroy(self, instance_uuid: str, row: RowHost, attempt: int | None) -> bool:
        """Remove the domain and return whether it is gone. What a later attempt than this one has made stays. Never raises:
        an error is logged, and an audit tries again.
        """
        try:
            if self.is_newer(instance_uuid, attempt):
                LOG.info(
                    "Instance %s is not removed: a later attempt than %s has brought it here", instance_uuid, attempt
                )
                self.reused(instance_uuid)
                return False
            self.destroy(instance_uuid, row)
        except Exception as error:  # noqa: BLE001  - a clean-up that fails must not hide why it was needed
            LOG.warning("Domain of instance %s could not be removed, an audit tries again: %s", instance_uuid, error)
            with self._lock:
                self._left[instance_uuid] = attempt
            return False
        return True

    def is_newer(self, instance_uuid: str, attempt: int | None) -> bool:
        """See the function of this name."""
        return is_newer(self._driver, self.records, instance_uuid, attempt)

    def reused(self, instance_uuid: str) -> None:
        """The instance is in use here again, or nothing of it is left: a removal that has failed is not tried again."""
        with self._lock:
            self._left.pop(instance_uuid, None)

    def attempt_left(self, instance_uuid: str) -> int | None:
        """Returns the last attempt whose removal has failed. Raises KeyError if none has."""
        with self._lock:
            return self._left[instance_uuid]

    def not_removed(self) -> tuple[str, ...]:
        """Returns the instances whose domains could not be removed yet."""
        with self._lock:
            return tuple(sorted(self._left))


def is_newer(driver: DomainDriver, records: GuestRecords, instance_uuid: str, attempt: int | None) -> bool:
    """Whether a build or a move of a later attempt than this one has brought what is here now. `attempt` None: no attempt was
    named, and what is here counts as its. Raises the errors of the driver.
    """
    if attempt is None:
        return False
    record = records.of(instance_uuid)
    recorded = 0 if record is None else record.attempt
    return max(recorded, driver.latest_attempt(instance_uuid) or 0) > attempt


def is_handed_over(driver: ComputeDriver, instance_uuid: str) -> bool:
    """Whether the guest stands still since a live migration that its hypervisor has ended: it has not gone on here."""
    report = driver.guest_side(instance_uuid)
    return report.side is GuestSide.PAUSED_BY_MIGRATION and not report.moving


def pause_stray(driver: ComputeDriver, instance_uuid: str) -> None:
    """Pauses a guest that runs here although another host has its server. It stays: it may have written what no other copy has."""
    if driver.power_state(instance_uuid) is PowerState.RUNNING:
        LOG.error("Instance %s is another host's: its guest here is paused", instance_uuid)
        driver.pause(instance_uuid)
