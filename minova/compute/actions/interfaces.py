"""Interfaces that guests get and lose."""

import logging
from collections.abc import Mapping

from minova import errors
from minova.compute.actions.action_run import ActionProgress, ActionRun, Operation
from minova.compute.actions.power import GuestPower
from minova.compute.instances.vif_plug_waiter import VifPlugWaiter
from minova.objects.actions.interfaces import ATTACH_INTERFACE, DETACH_INTERFACE
from minova.objects.network.vif import Vif
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.driver.interfaces import InterfaceDriver

LOG = logging.getLogger(__name__)


class GuestInterfaces:
    def __init__(
        self, driver: InterfaceDriver, power: GuestPower, progress: ActionProgress, vif_plug_waiter: VifPlugWaiter
    ) -> None:
        self._driver = driver
        self._power = power
        self._progress = progress
        self._vif_plug_waiter = vif_plug_waiter

    def operations(self) -> Mapping[str, Operation]:
        return {ATTACH_INTERFACE.kind: self._attach, DETACH_INTERFACE.kind: self._detach}

    def _attach(self, run: ActionRun) -> PowerState:
        instance = run.instance
        vif = _vif_of(run)
        if vif is not None and vif.from_neutron:
            with run.preparing():
                instance = self._vif_plug_waiter.bound(run.ctx, instance, instance.attempt)
            vif = _vif_of(run, instance)
        if vif is None:
            raise errors.PortNotFound(f"Port {run.arguments.port_id} could not be found.")
        try:
            return self._driver.attach_interface(instance, vif)
        except Exception as error:
            # The addresses of the interface stay taken unless it is certain that the guest does not have the interface.
            run.untouched = not self._may_have(instance.uuid, vif, error)
            raise

    def _may_have(self, instance_uuid: str, vif: Vif, error: Exception) -> bool:
        if vif.from_neutron:  # the driver's interfaces do not include it
            return not isinstance(error, errors.InterfaceAttachFailed | errors.HardwareNotOffered)
        try:
            return vif.mac_address in {each.mac_address for each in self._driver.interfaces(instance_uuid)}
        except errors.NotFound:
            return False
        except errors.MinovaError as unknown:
            LOG.warning("Whether instance %s has interface %s is not known: %s", instance_uuid, vif.port_id, unknown)
            return True

    def _detach(self, run: ActionRun) -> PowerState:
        vif = _vif_of(run)
        if vif is None:
            return self._power.state(run.instance.uuid)
        # The guest has to release the interface. The operator configures how long to try; that may be longer than an
        # action may take.
        return self._driver.detach_interface(run.instance.uuid, vif, self._progress.waiting(run))


def _vif_of(run: ActionRun, instance: Instance | None = None) -> Vif | None:
    """Returns the interface of the port, or None if the instance has none."""
    return next((vif for vif in (instance or run.instance).network_info if vif.port_id == run.arguments.port_id), None)
