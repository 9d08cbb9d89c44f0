"""Rebuilds on the host."""

from collections.abc import Mapping

from minova import errors
from minova.compute.actions.action_run import ActionRun, Operation
from minova.compute.actions.image_fetch import ImageFetch
from minova.compute.actions.power import GuestPower
from minova.compute.instances.builds import checked_file, hardware_of
from minova.objects.actions.rebuild import REBUILD
from minova.objects.servers.states import PowerState, TaskState, VmState
from minova.virt.driver import ComputeDriver
from minova.virt.driver.domains import GuestData


class GuestRebuild:
    def __init__(self, driver: ComputeDriver, power: GuestPower, fetch: ImageFetch) -> None:
        self._driver = driver
        self._power = power
        self._fetch = fetch

    def operations(self) -> Mapping[str, Operation]:
        return {REBUILD.kind: self._rebuild}

    def _rebuild(self, run: ActionRun) -> PowerState:
        """Fetch the image first: if that fails, the guest is left as it is. Once the guest is off, report to the
        conductor that the disks change: until then the conductor keeps the old image and attributes, to restore them.
        """
        instance, waiting = run.instance, TaskState.REBUILD_BLOCK_DEVICE_MAPPING
        image = instance.image
        with run.preparing():
            if image is None:
                raise errors.ImageUnacceptable(f"Instance {instance.uuid} has no image")
            path = checked_file(image, instance.flavor, lambda: self._fetch(run, image, waiting))
            run.confirm(waiting)
        self._power.off(run, waiting)
        run.confirm()
        run.step = TaskState.REBUILD_SPAWNING.value
        data = GuestData(
            availability_zone=run.arguments.availability_zone,
            admin_password=run.arguments.admin_password,
            files=run.arguments.injected_files,
        )
        self._driver.rebuild(instance, path, data, run.replaces)
        is_off = instance.vm_state is VmState.STOPPED
        power_state = self._power.state(instance.uuid) if is_off else self._driver.power_on(instance)
        run.hardware = hardware_of(self._driver, instance.uuid)
        return power_state
