"""Rescues on the host."""

from collections.abc import Mapping

from minova import errors
from minova.compute.actions.action_run import ActionRun, Operation
from minova.compute.actions.image_fetch import ImageFetch
from minova.compute.actions.power import GuestPower
from minova.compute.instances.vif_plug_waiter import VifPlugWaiter
from minova.objects.actions.rescue import RESCUE, UNRESCUE
from minova.objects.catalogue.image import Image
from minova.objects.servers.states import PowerState, TaskState
from minova.virt.driver.rescue import RescueDriver


class GuestRescue:
    def __init__(
        self, driver: RescueDriver, power: GuestPower, fetch: ImageFetch, vif_plug_waiter: VifPlugWaiter
    ) -> None:
        self._driver = driver
        self._power = power
        self._fetch = fetch
        self._vif_plug_waiter = vif_plug_waiter

    def operations(self) -> Mapping[str, Operation]:
        return {RESCUE.kind: self._rescue, UNRESCUE.kind: self._power.hard_reboot}

    def _rescue(self, run: ActionRun) -> PowerState:
        """Prepare the rescue disk first: if that fails, the guest is left as it is."""
        instance = self._vif_plug_waiter.bound_if_lost(run.ctx, run.instance)
        image: Image | None = run.arguments.rescue_image or instance.image
        with run.preparing():
            if image is None:
                raise errors.ImageUnacceptable(f"Instance {instance.uuid} has no image that could rescue it")
            self._driver.prepare_rescue(instance, image, self._fetch(run, image, TaskState.RESCUING))
            run.confirm()
        self._power.off(run)
        run.confirm()
        return self._driver.rescue(instance, image)
