"""What a host does for guests that stand still, and how it counts them."""

import itertools

import pytest

from minova import metrics
from minova.objects.guests.guest_states import GuestReason
from minova.objects.servers.states import PowerState, VmState
from tests.fakes.computes import Compute

PAUSED, RUNNING = PowerState.PAUSED, PowerState.RUNNING


@pytest.fixture
def compute() -> Compute:
    service = Compute().start()
    for uuid in ("i", "j"):
        service.boot(uuid)
    return service


def look(compute: Compute) -> None:
    compute.manager.collaborators.periodic_tasks._guests_in_trouble.check()
    compute.run()


def counted(reason: str) -> float | None:
    return metrics.REGISTRY.get_sample_value("minova_guests_in_trouble", {"reason": reason})


def test_a_guest_goes_on_when_there_is_space_again(compute: Compute) -> None:
    compute.hypervisor.turn("i", PAUSED, GuestReason.DISK_FULL)
    compute.hypervisor.has_space = False
    look(compute)
    assert compute.domains() == {"i": PAUSED, "j": RUNNING}
    assert counted("disk_full") == 1
    compute.hypervisor.has_space = True
    look(compute)
    assert compute.domains() == {"i": RUNNING, "j": RUNNING}
    look(compute)
    assert counted("disk_full") == 0


def test_a_guest_with_another_reason_stands_still(compute: Compute) -> None:
    compute.hypervisor.turn("i", PAUSED, GuestReason.DISK_ERROR)
    compute.hypervisor.turn("j", PAUSED, GuestReason.WATCHDOG)
    look(compute)
    assert compute.domains() == {"i": PAUSED, "j": PAUSED}
    assert (counted("disk_error"), counted("watchdog")) == (1, 1)


def test_bug_guest_that_sleeps_is_not_counted(compute: Compute) -> None:
    compute.hypervisor.turn("i", PowerState.SUSPENDED, GuestReason.ASLEEP)
    look(compute)
    assert compute.domains()["i"] is PowerState.SUSPENDED
    assert counted("asleep") == 1


def test_a_guest_that_its_user_has_paused_stays_paused(compute: Compute) -> None:
    tracker = compute.manager.collaborators.nodes.trackers()[0]
    held = tracker.holds("i")
    assert held is not None
    compute.hypervisor.turn("i", PAUSED, GuestReason.DISK_FULL)
    compute.conductor.change("i", vm_state=VmState.PAUSED, power_state=PAUSED)
    compute.manager.update_available_resource()
    look(compute)
    assert compute.domains()["i"] is PAUSED
    assert counted("disk_full") == 0


def test_a_guest_stands_still_if_the_option_is_off(compute: Compute) -> None:
    compute.conf.set_override("resume_guests_when_disk_has_space", False)
    compute.hypervisor.turn("i", PAUSED, GuestReason.DISK_FULL)
    look(compute)
    assert compute.domains()["i"] is PAUSED
    assert counted("disk_full") == 1


def test_a_guest_that_stands_still_again_waits_longer_each_time(compute: Compute) -> None:
    now = 0.0
    compute.ticks = lambda: now
    compute.restart()
    goes = []
    for _ in range(40):
        compute.hypervisor.turn("i", PAUSED, GuestReason.DISK_FULL)
        look(compute)
        if compute.domains()["i"] is RUNNING:
            goes.append(now)
        now += 10.0
    pauses = [later - earlier for earlier, later in itertools.pairwise(goes)]
    assert pauses == sorted(pauses)
    assert 3 <= len(goes) <= 8


def test_the_reason_travels_with_the_state(compute: Compute) -> None:
    compute.hypervisor.turn("i", PAUSED, GuestReason.DISK_FULL)
    compute.manager.report_changes()
    assert compute.conductor.reasons == {"i": "disk_full"}
