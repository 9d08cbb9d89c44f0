"""Power on the host: starts, stops, reboots, pauses and suspensions."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from oslo_config import cfg

from minova import errors
from minova.compute.actions.action_run import ActionRun, Operation
from minova.compute.instances.clean_stops import shutdown_timeout
from minova.compute.instances.vif_plug_waiter import VifPlugWaiter
from minova.objects.actions.power import (
    PAUSE,
    REBOOT_HARD,
    REBOOT_SOFT,
    RESUME,
    START,
    STOP,
    SUSPEND,
    TRIGGER_CRASH_DUMP,
    UNPAUSE,
)
from minova.objects.servers.states import PowerState, TaskState
from minova.virt.driver.power import PowerDriver

LOG = logging.getLogger(__name__)


class GuestPower:
    def __init__(self, conf: cfg.ConfigOpts, driver: PowerDriver, vif_plug_waiter: VifPlugWaiter) -> None:
        self._conf = conf
        self._driver = driver
        self._vif_plug_waiter = vif_plug_waiter

    def operations(self) -> Mapping[str, Operation]:
        driver = self._driver
        return {
            STOP.kind: self.stop,
            START.kind: self.start,
            REBOOT_SOFT.kind: self._reboot_soft,
            REBOOT_HARD.kind: self.hard_reboot,
            PAUSE.kind: lambda run: driver.pause(run.instance.uuid),
            UNPAUSE.kind: self._unpause,
            SUSPEND.kind: lambda run: driver.suspend(run.instance.uuid),
            RESUME.kind: self._resume,
            TRIGGER_CRASH_DUMP.kind: lambda run: driver.inject_nmi(run.instance.uuid),
        }

    def start(self, run: ActionRun) -> PowerState:
        """As in Nova, a guest that is off is defined anew: whatever domain was left, it runs as its instance says, and from
        its own disk, though it may have been rescued before. Unlike Nova, one whose memory is saved goes on from it, and
        one that runs already is left running: an earlier request has started it.
        """
        runs = self._driver.power_state(run.instance.uuid) is PowerState.RUNNING
        # The driver leaves it running, too, unless a job that will end the guest has begun.
        state = self._driver.start(self._vif_plug_waiter.bound_if_lost(run.ctx, run.instance))
        if runs:
            LOG.info("Instance %s runs already, and is left running", run.instance.uuid)
            run.kept = True
        return state

    def stop(self, run: ActionRun) -> PowerState:
        self.off(run)
        return self.state(run.instance.uuid)

    def _unpause(self, run: ActionRun) -> PowerState:
        with _as_it_was(run):
            return self._driver.unpause(run.instance.uuid)

    def _resume(self, run: ActionRun) -> PowerState:
        with _as_it_was(run):
            return self._driver.resume(run.instance)

    def _reboot_soft(self, run: ActionRun) -> PowerState:
        """As in Nova: the guest shuts itself down and is started again. A guest that does not shut down in time is
        rebooted hard.
        """
        timeout = float(self._conf.libvirt.wait_soft_reboot_seconds)
        is_down = self._driver.shut_down(run.instance.uuid, timeout, run.cancelled)
        run.confirm()
        if is_down:
            return self._driver.power_on(run.instance)
        LOG.info("Instance %s has not shut down within %g s: it is rebooted hard", run.instance.uuid, timeout)
        run.forced = True
        return self.hard_reboot(run)

    def hard_reboot(self, run: ActionRun) -> PowerState:
        return self._driver.hard_reboot(self._vif_plug_waiter.bound_if_lost(run.ctx, run.instance))

    def off(self, run: ActionRun, step: TaskState | None = None) -> None:
        """Power off after the guest has had its time to shut itself down. Raises ActionEnded if the action is not
        wanted any more; the guest may be off then.

        `step`: see `ActionRun.confirm`.
        """
        uuid = run.instance.uuid
        timeout = shutdown_timeout(run.instance, self._conf.shutdown_timeout)
        if timeout > 0:
            is_down = self._driver.shut_down(uuid, timeout, run.cancelled)
            run.require_wanted()
            if is_down:
                return
            run.confirm(step)
            run.forced = True
        self._driver.power_off(uuid)

    def state(self, instance_uuid: str) -> PowerState:
        return self._driver.power_state(instance_uuid) or PowerState.SHUTDOWN


@contextmanager
def _as_it_was(run: ActionRun) -> Iterator[None]:
    """A guest that cannot be woken, or whose disk stops it again, stands still as before."""
    try:
        yield
    except (errors.GuestDiskFull, errors.GuestDiskFailed, errors.GuestAsleep):
        run.untouched = True
        raise
