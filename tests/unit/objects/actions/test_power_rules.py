"""Guests in another state than their rows expect: every pair of states."""

import itertools

import pytest

from minova.objects.actions.power_rules import RowStates, differs, must_resume, must_stop
from minova.objects.servers.states import PowerState, TaskState, VmState

ON, OFF = PowerState.RUNNING, PowerState.SHUTDOWN
EACH = [*itertools.product(VmState, PowerState)]


@pytest.mark.parametrize(("vm_state", "now"), EACH)
def test_a_conductor_hears_of_another_state_and_of_an_instance_that_must_change(
    vm_state: VmState, now: PowerState
) -> None:
    changes = (vm_state in {VmState.ACTIVE, VmState.PAUSED} and now in {OFF, PowerState.CRASHED}) or (
        vm_state is VmState.SHELVED and now is ON
    )
    assert differs(RowStates(vm_state, now), now) is changes
    other = OFF if now is ON else ON
    assert differs(RowStates(vm_state, other), now)


@pytest.mark.parametrize(("vm_state", "now"), EACH)
def test_a_guest_that_was_started_behind_the_clouds_back_is_asked_to_shut_down(
    vm_state: VmState, now: PowerState
) -> None:
    assert must_stop(vm_state, now) is (vm_state in {VmState.STOPPED, VmState.SOFT_DELETED} and now is ON)


@pytest.mark.parametrize(
    ("vm_state", "task_state", "before", "now", "resumes"),
    [
        (VmState.ACTIVE, None, ON, OFF, True),
        (VmState.RESIZED, None, ON, PowerState.CRASHED, True),
        (VmState.RESCUED, None, ON, OFF, True),
        (VmState.ACTIVE, TaskState.PAUSING, ON, OFF, True),
        (VmState.ACTIVE, TaskState.IMAGE_UPLOADING, ON, OFF, True),
        (VmState.ACTIVE, TaskState.UPDATING_PASSWORD, ON, OFF, True),
        (VmState.ACTIVE, TaskState.POWERING_OFF, ON, OFF, False),
        (VmState.ACTIVE, TaskState.REBOOTING, ON, OFF, False),
        (VmState.ACTIVE, None, OFF, OFF, False),
        (VmState.ACTIVE, None, ON, ON, False),
        (VmState.ACTIVE, None, ON, PowerState.PAUSED, False),
        (VmState.PAUSED, None, ON, OFF, False),
        (VmState.STOPPED, None, ON, OFF, False),
    ],
)
def test_a_guest_that_ran_when_its_host_went_down_is_started_again(
    vm_state: VmState, task_state: TaskState | None, before: PowerState, now: PowerState, resumes: bool
) -> None:
    assert must_resume(vm_state, task_state, before, now) is resumes
