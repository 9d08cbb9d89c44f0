"""What becomes of instances whose guests have changed by themselves."""

import pytest

from minova.objects.actions.guest_changes import FAULTS, STOPS, change_of
from minova.objects.guests.guest_states import GuestReason, GuestState
from minova.objects.servers.failures import TEXTS
from minova.objects.servers.states import PowerState, VmState

RUNNING, PAUSED, OFF, CRASHED = PowerState.RUNNING, PowerState.PAUSED, PowerState.SHUTDOWN, PowerState.CRASHED
ASLEEP = PowerState.SUSPENDED
R = GuestReason


@pytest.mark.parametrize(
    ("vm_state", "before", "now", "reason", "expected"),
    [
        (VmState.ACTIVE, RUNNING, PAUSED, R.DISK_FULL, (None, "guest_paused", "GuestDiskFull")),
        (VmState.ACTIVE, RUNNING, PAUSED, R.DISK_ERROR, (None, "guest_paused", "GuestDiskFailed")),
        (VmState.RESCUED, RUNNING, PAUSED, R.WATCHDOG, (None, "guest_paused", "GuestWatchdog")),
        (VmState.ACTIVE, RUNNING, PAUSED, R.PANICKED, (None, "guest_crash", "GuestPanicked")),
        (VmState.ACTIVE, RUNNING, PAUSED, R.PAUSED_BY_OTHER, (None, "guest_paused", "GuestPausedByOther")),
        (VmState.ACTIVE, RUNNING, PAUSED, R.NONE, None),  # a job of the hypervisor
        (VmState.ACTIVE, PAUSED, PAUSED, R.DISK_FULL, None),  # recorded before
        (VmState.PAUSED, RUNNING, PAUSED, R.PAUSED_BY_OTHER, None),  # by its user
        (VmState.ACTIVE, PAUSED, RUNNING, R.NONE, (None, "unpause", "")),
        (VmState.ACTIVE, OFF, RUNNING, R.NONE, None),
        (VmState.ACTIVE, RUNNING, ASLEEP, R.ASLEEP, (None, "guest_paused", "GuestAsleep")),
        (VmState.RESIZED, RUNNING, ASLEEP, R.NONE, (None, "guest_paused", "GuestAsleep")),  # by an older host
        (VmState.ACTIVE, ASLEEP, ASLEEP, R.ASLEEP, None),
        (VmState.ACTIVE, ASLEEP, RUNNING, R.NONE, (None, "unpause", "")),
        (VmState.ACTIVE, ASLEEP, OFF, R.SHUT_DOWN, (VmState.STOPPED, "stop", "")),
        (VmState.SHELVED, OFF, ASLEEP, R.ASLEEP, None),
        (VmState.ACTIVE, RUNNING, CRASHED, R.CRASHED, (VmState.STOPPED, "guest_crash", "GuestCrashed")),
        (VmState.ACTIVE, RUNNING, CRASHED, R.PANICKED, (VmState.STOPPED, "guest_crash", "GuestPanicked")),
        (VmState.ACTIVE, RUNNING, CRASHED, R.NONE, (VmState.STOPPED, "guest_crash", "GuestCrashed")),
        (VmState.PAUSED, PAUSED, CRASHED, R.CRASHED, (VmState.STOPPED, "guest_crash", "GuestCrashed")),
        (VmState.RESCUED, RUNNING, CRASHED, R.CRASHED, (None, "guest_crash", "GuestCrashed")),
        (VmState.RESCUED, CRASHED, CRASHED, R.CRASHED, None),
        (VmState.STOPPED, CRASHED, CRASHED, R.CRASHED, None),
        (VmState.ACTIVE, RUNNING, OFF, R.SHUT_DOWN, (VmState.STOPPED, "stop", "")),
        (VmState.ACTIVE, RUNNING, OFF, R.NONE, (VmState.STOPPED, "stop", "")),
        (VmState.SUSPENDED, OFF, OFF, R.SAVED_BY_OTHER, None),
        (VmState.SHELVED, OFF, RUNNING, R.NONE, (VmState.ACTIVE, "unshelve", "")),
    ],
)
def test_a_change_follows_from_states_and_reason(
    vm_state: VmState, before: PowerState, now: PowerState, reason: GuestReason, expected: tuple[object, ...] | None
) -> None:
    change = change_of(vm_state, before, GuestState(now, reason))
    assert (change and (change.after, change.action, change.kind)) == expected


def test_a_stop_says_who_has_done_it() -> None:
    texts = {
        reason: change.text
        for reason in STOPS
        if (change := change_of(VmState.ACTIVE, RUNNING, GuestState(OFF, reason))) is not None
    }
    assert texts == STOPS
    assert texts[R.SHUT_DOWN] == "The guest has shut itself down."


def test_each_reason_is_a_fault_with_a_text_or_a_stop() -> None:
    assert {*FAULTS, *STOPS} == {*GuestReason}
    assert {*FAULTS.values()} <= TEXTS.keys()
