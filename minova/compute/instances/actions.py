"""Server actions on this host: each is an operation of the driver, between a question to the conductor and a report.

begin_action (is it still in progress?) -> the driver's operation -> action_succeeded or action_failed

All of it happens under the lock of the instance. So a message that comes twice, or after the action has ended, changes nothing.
"""

import logging
import threading
from collections.abc import Callable, Mapping

import msgspec
from oslo_config import cfg

from minova import errors
from minova.compute.conductor_retry import ConductorRetry
from minova.compute.instances.domains import Domains
from minova.compute.instances.power_states import PowerStates
from minova.compute.tracker.nodes import Nodes
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.failures import kind_of
from minova.objects.instance import Instance
from minova.objects.server_actions import START, STOP, ServerAction
from minova.objects.states import PowerState
from minova.virt.driver import Driver

LOG = logging.getLogger(__name__)
# Seconds that a report is repeated; afterwards the conductor asks for the action again.
REPORT_PATIENCE = 60.0

# The event is set once the instance is to be removed.
Operation = Callable[[Instance, threading.Event], PowerState]


class InstanceActions:
    def __init__(
        self,
        conf: cfg.ConfigOpts,
        host: str,
        driver: Driver,
        conductor: ConductorApi,
        nodes: Nodes,
        domains: Domains,
        power_states: PowerStates,
        *,
        repeat: ConductorRetry | None = None,
    ) -> None:
        self._conf = conf
        self._host = host
        self._driver = driver
        self._conductor = conductor
        self._nodes = nodes
        self._domains = domains
        self._power_states = power_states
        self._repeat = repeat or ConductorRetry()
        self._running: dict[str, threading.Event] = {}
        self._operations: Mapping[str, Operation] = {STOP.name: self._stop, START.name: self._start}

    def run(self, ctx: RequestContext, action: ServerAction, instance: Instance, action_id: int) -> None:
        """Raises ServiceUnavailable: no conductor has answered; it asks for the action again."""
        with self._domains.locked(instance.uuid):
            cancelled = self._running[instance.uuid] = threading.Event()
            try:
                self._run(ctx, action, instance, action_id, cancelled)
            finally:
                del self._running[instance.uuid]

    def cancel(self, instance_uuid: str) -> None:
        """The instance is to be removed: an action that waits for its guest ends at once."""
        cancelled = self._running.get(instance_uuid)
        if cancelled is not None:
            cancelled.set()

    def _run(
        self,
        ctx: RequestContext,
        action: ServerAction,
        instance: Instance,
        action_id: int,
        cancelled: threading.Event,
    ) -> None:
        try:
            self._conductor.begin_action(ctx, instance_uuid=instance.uuid, action_id=action_id, host=self._host)
        except errors.StaleAttempt as error:
            LOG.info("Instance %s is left as it is: %s", instance.uuid, error)
            return
        try:
            power_state = self._operations[action.name](instance, cancelled)
        except Exception as error:
            expected = isinstance(error, errors.MinovaError)
            LOG.warning("%s of instance %s failed: %s", action.name, instance.uuid, error, exc_info=not expected)
            self._report_failure(ctx, instance.uuid, action_id, error)
            return
        if cancelled.is_set():
            LOG.info("%s of instance %s ends: it is being deleted", action.name, instance.uuid)
            return
        self._report_success(ctx, action, instance, action_id, power_state)

    def _report_success(
        self, ctx: RequestContext, action: ServerAction, instance: Instance, action_id: int, power_state: PowerState
    ) -> None:
        # A power state that was read before the operation must arrive before the action has ended.
        self._power_states.finish_sending()
        self._repeat(
            "action_succeeded",
            lambda: self._conductor.action_succeeded(
                ctx, instance_uuid=instance.uuid, action_id=action_id, host=self._host, power_state=int(power_state)
            ),
            REPORT_PATIENCE,
        )
        LOG.info("%s of instance %s is done", action.name, instance.uuid)
        for tracker in self._nodes.trackers():
            tracked = tracker.holds(instance.uuid)
            if tracked is not None:
                changed = {"vm_state": action.ends_in, "task_state": None, "power_state": power_state}
                tracker.note(msgspec.structs.replace(tracked, **changed))

    def _report_failure(self, ctx: RequestContext, instance_uuid: str, action_id: int, error: Exception) -> None:
        reason, kind = str(error) or type(error).__name__, kind_of(error)
        self._repeat(
            "action_failed",
            lambda: self._conductor.action_failed(
                ctx, instance_uuid=instance_uuid, action_id=action_id, host=self._host, reason=reason, kind=kind
            ),
            REPORT_PATIENCE,
        )

    # -- the operations --------------------------------------------------------------------------------------------

    def _stop(self, instance: Instance, cancelled: threading.Event) -> PowerState:
        self._driver.power_off(instance.uuid, shutdown_timeout(instance, self._conf.shutdown_timeout), cancelled)
        return self._driver.power_state(instance.uuid) or PowerState.SHUTDOWN

    def _start(self, instance: Instance, cancelled: threading.Event) -> PowerState:
        return self._driver.power_on(instance)


def shutdown_timeout(instance: Instance, default: float) -> float:
    """Seconds that the guest has to shut itself down: as its image says, else as configured."""
    from_image = instance.image.properties.get("os_shutdown_timeout") if instance.image is not None else None
    if from_image is None:
        return float(default)
    try:
        return max(0.0, float(int(from_image)))
    except ValueError:
        LOG.warning("os_shutdown_timeout of image %s is no number: %r", instance.image_ref, from_image)
        return float(default)
