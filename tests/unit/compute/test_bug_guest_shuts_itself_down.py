"""What a host does about guests that shut themselves down, and about those that are started behind the cloud's back."""

import pytest

from minova.objects.power_rules import must_stop
from minova.objects.states import PowerState, VmState
from tests.fakes.computes import Compute

ON = {PowerState.RUNNING, PowerState.PAUSED, PowerState.SUSPENDED}


@pytest.fixture
def compute() -> Compute:
    made = Compute().start()
    made.boot("i")
    return made


def audited(compute: Compute) -> VmState:
    compute.manager.update_available_resource()
    compute.run()
    compute.manager.report_changes()
    return compute.conductor.instances["i"].vm_state


@pytest.mark.parametrize("vm_state", list(VmState))
@pytest.mark.parametrize("power_state", list(PowerState))
def test_which_domains_must_be_stopped(vm_state: VmState, power_state: PowerState) -> None:
    off = (VmState.STOPPED, VmState.SOFT_DELETED, VmState.SHELVED)
    wanted = {VmState.ACTIVE: {PowerState.SUSPENDED}, **dict.fromkeys(off, ON)}
    assert must_stop(vm_state, power_state) == (power_state in wanted.get(vm_state, set()))


def test_a_guest_that_shuts_itself_down_is_stopped_and_keeps_its_room(compute: Compute) -> None:
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    compute.manager.report_changes()
    assert audited(compute) is VmState.STOPPED
    assert compute.used() == (1024, 10, 2)
    assert compute.hypervisor.calls.count("power_on") == 1


def test_a_stopped_guest_that_is_started_by_hand_is_stopped_again(compute: Compute) -> None:
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    compute.manager.report_changes()
    compute.hypervisor.turn("i", PowerState.RUNNING)
    assert audited(compute) is VmState.STOPPED
    assert compute.domains() == {"i": PowerState.SHUTDOWN}
    assert compute.conductor.instances["i"].power_state is PowerState.SHUTDOWN


def test_a_guest_that_suspends_itself_is_stopped(compute: Compute) -> None:
    compute.hypervisor.turn("i", PowerState.SUSPENDED)
    assert audited(compute) is VmState.STOPPED
    assert compute.domains() == {"i": PowerState.SHUTDOWN}


def test_a_guest_that_is_on_again_before_it_is_told_is_not_stopped(compute: Compute) -> None:
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    compute.hypervisor.watch(lambda uuid, state: None)
    compute.hypervisor.turn("i", PowerState.RUNNING)
    compute.manager.report_changes()
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE


def test_what_was_seen_running_is_looked_at_again_before_it_is_stopped(compute: Compute) -> None:
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    compute.manager.report_changes()
    compute.hypervisor.turn("i", PowerState.RUNNING)
    compute.manager.update_available_resource()
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    compute.hypervisor.calls.clear()
    compute.run()
    assert "power_off" not in compute.hypervisor.calls
