"""The clock of a real guest is right after its CPUs have stood still."""

import time
from pathlib import Path

import msgspec
import pytest

from minova.objects.servers.states import PowerState
from tests.integration.virt.test_guest_hardware import FLAVOR, Guest, guest
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(600)
SMALL = msgspec.structs.replace(FLAVOR, ephemeral_gb=0, swap=0, extra_specs={})


def lag(vm: Guest) -> float:
    return time.time() - int(vm.ask("date +%s"))


def fall_behind(vm: Guest) -> None:
    """As if it had stood still for years."""
    vm.ask("date -s @1000000000")
    assert lag(vm) > 1e8


@pytest.mark.nightly("half a minute; each day has the calls of the agent without a guest")
def test_the_agent_sets_the_clock_after_unpause_and_resume(
    tmp_path: Path, libvirtd: Libvirtd, guest_image: Path
) -> None:
    with guest(tmp_path, libvirtd, guest_image, {"hw_qemu_guest_agent": "yes"}, SMALL) as vm:
        vm.ready(1)
        driver, uuid = vm.driver, vm.instance.uuid
        # The agent refuses to set a clock without this program.
        vm.ask("mkdir -p /sbin && ln -s /bin/busybox /sbin/hwclock")
        fall_behind(vm)
        assert driver.pause(uuid) is PowerState.PAUSED
        assert driver.unpause(uuid) is PowerState.RUNNING
        wait_for("the clock after a pause", lambda: abs(lag(vm)) < 60, 60)
        fall_behind(vm)
        driver.suspend(uuid)
        assert driver.resume(vm.instance) is PowerState.RUNNING
        wait_for("the clock after a suspension", lambda: abs(lag(vm)) < 60, 60)
        # An agent that does not answer holds up nothing.
        vm.ask("kill -STOP $(cat /tmp/qemu-ga.pid)")
        fall_behind(vm)
        driver.pause(uuid)
        assert driver.unpause(uuid) is PowerState.RUNNING
        assert lag(vm) > 1e8
