"""Starts guests again after a boot of their host, several at the same time, while the service registers, sends
heartbeats and serves requests.

Until a guest has been started, its power state is not reported: the report that it is off would stop its instance. A
process that dies meanwhile has reported nothing, so the next start finds the same guests.
"""

import logging
import time
from collections.abc import Callable, Iterable
from functools import partial

from minova import errors
from minova.compute.instances.base_images import BaseImages
from minova.compute.instances.domains import Domains
from minova.compute.instances.power_states import PowerStates
from minova.compute.instances.vif_plug_waiter import VifPlugWaiter
from minova.compute.instances.workers import GuestWorkers
from minova.context import RequestContext
from minova.log import bound_request
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import VmState
from minova.virt.driver import ComputeDriver

LOG = logging.getLogger(__name__)
# Seconds for which a start waits for a hypervisor or a service that does not answer, and between two tries. After a power
# cut of a whole site other services may come later than this host.
PATIENCE, PAUSE = 600.0, 5.0
# None: not now. Its state stays unreported until `begin` is called for it again, or `release`.
IsWanted = Callable[[Instance], bool | None]
_LATER = (errors.HypervisorUnavailable, errors.GuestBusy, errors.ServiceUnavailable)


class GuestStarts:
    """`pause` waits the given seconds and returns whether to give up; `clock` returns monotonic seconds."""

    def __init__(
        self,
        driver: ComputeDriver,
        workers: GuestWorkers,
        domains: Domains,
        power_states: PowerStates,
        vif_plug_waiter: VifPlugWaiter,
        bases: BaseImages,
        *,
        pause: Callable[[float], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver = driver
        self._workers = workers
        self._domains = domains
        self._power_states = power_states
        self._vif_plug_waiter = vif_plug_waiter
        self._bases = bases
        self._pause = pause
        self._clock = clock

    def begin(self, ctx: RequestContext, instances: Iterable[Instance], is_wanted: IsWanted) -> None:
        """Begin to start these guests. An instance whose guest cannot be started becomes `stopped`. `is_wanted` is asked
        under the lock of the instance just before each try.
        """
        instances = tuple(instances)
        self.hold(instances)
        for instance in instances:
            LOG.info("Instance %s ran when it was last seen: it is started again", instance.uuid)
            try:
                self._workers.start_guest(instance.uuid, partial(self._start, ctx, instance, is_wanted))
            except RuntimeError as error:  # no thread is available
                LOG.warning("Instance %s could not be started again: %s", instance.uuid, error)
                self._release(instance.uuid)

    def hold(self, instances: Iterable[Instance]) -> None:
        """Do not report the power states of these guests before they are started or released."""
        for instance in instances:
            self._power_states.hold(instance.uuid)

    def release(self, instances: Iterable[Instance]) -> None:
        for instance in instances:
            self._release(instance.uuid)

    def _start(self, ctx: RequestContext, instance: Instance, is_wanted: IsWanted) -> None:
        may_report = True
        with bound_request(ctx), self._domains.locked(instance.uuid):
            try:
                may_report = self._try(ctx, instance, is_wanted)
            except Exception as error:
                LOG.warning(
                    "Instance %s could not be started again: %s",
                    instance.uuid,
                    error,
                    exc_info=not isinstance(error, errors.MinovaError | OSError),
                )
            if may_report:
                self._release(instance.uuid)

    def _try(self, ctx: RequestContext, instance: Instance, is_wanted: IsWanted) -> bool:
        """Returns whether the state of the guest may be reported now. Raises the errors of the driver."""
        until = self._clock() + PATIENCE
        while True:
            try:
                may_start = is_wanted(instance)
                if not may_start:
                    return may_start is not None
                self._bases.restore(ctx, instance)
                plugged = self._vif_plug_waiter.bound_if_lost(ctx, instance)
                # Both may have waited for minutes.
                may_start = is_wanted(instance)
                if not may_start:
                    return may_start is not None
                run = self._driver.rescue if instance.vm_state is VmState.RESCUED else self._driver.start
                run(plugged)
                return True
            except _LATER as error:
                if self._clock() >= until:
                    raise
                LOG.info("Instance %s is not started yet: %s", instance.uuid, error)
            if self._pause(PAUSE):
                return True

    def _release(self, instance_uuid: str) -> None:
        try:
            self._power_states.release(instance_uuid)
        except errors.MinovaError as error:  # an audit compares the states again
            LOG.debug("Whether instance %s runs is not known: %s", instance_uuid, error)
