"""The password of the administrator of a guest."""

from collections.abc import Mapping

from minova import errors
from minova.compute.actions.action_run import ActionRun, Operation
from minova.compute.actions.power import GuestPower
from minova.objects.actions.password import CHANGE_PASSWORD
from minova.objects.servers.states import PowerState
from minova.virt.driver.power import PowerDriver


class GuestPassword:
    def __init__(self, driver: PowerDriver, power: GuestPower) -> None:
        self._driver = driver
        self._power = power

    def operations(self) -> Mapping[str, Operation]:
        return {CHANGE_PASSWORD.kind: self._change_password}

    def _change_password(self, run: ActionRun) -> PowerState:
        """As in Nova, refuse a guest that was paused or powered off outside minova."""
        uuid = run.instance.uuid
        state = self._power.state(uuid)
        if state is not PowerState.RUNNING:
            raise errors.GuestNotRunning(f"instance {uuid} is not running")
        self._driver.set_admin_password(run.instance, run.arguments.admin_password or "")
        return state
