"""Bug: an action that met a busy guest never ended. libvirt answers "cannot acquire state change lock" for a guest whose monitor
hangs, too, after 30 s each time, so the server kept its task state for ever, and no hard reboot was allowed.
"""

import pytest

from minova import errors
from minova.objects.actions.action import ServerAction
from minova.objects.actions.images import CREATE_IMAGE
from minova.objects.actions.power import REBOOT_HARD, SUSPEND
from minova.objects.catalogue.image import Image
from minova.objects.servers.states import PowerState, VmState
from tests.fakes.computes import Compute
from tests.unit.compute.actions.test_runner import ask, state

LOCKED = errors.GuestBusy("cannot acquire state change lock (held by monitor=remoteDispatchDomainGetBlockInfo)")
SAVING = errors.GuestJobRuns("Domain guest is occupied by a save of its memory")
# Seconds after which libvirt answers a call about a guest that hangs.
ANSWERS_AFTER = 30.0


class Busy:
    """A guest whose operation takes ANSWERS_AFTER and fails, with one error after another; the last one goes on."""

    def __init__(self, compute: Compute, operation: str, *fails: Exception | None) -> None:
        self.now = 0.0
        self.tries = 0
        self._operation = operation
        self._fails = fails
        compute.ticks = lambda: self.now
        compute.hypervisor.on_call = self._call

    def _call(self, operation: str) -> None:
        if operation != self._operation:
            return
        error = self._fails[min(self.tries, len(self._fails) - 1)]
        self.tries += 1
        self.now += ANSWERS_AFTER
        assert self.tries < 1000, "the action does not end"
        if error is not None:
            raise error


@pytest.fixture
def compute() -> Compute:
    service = Compute().start()
    service.boot("i", image=Image(id="own"))
    return service


@pytest.mark.parametrize(("action", "operation"), [(CREATE_IMAGE, "snapshot"), (SUSPEND, "suspend")])
def test_action_of_a_guest_that_hangs_fails_after_its_time(
    compute: Compute, action: ServerAction, operation: str
) -> None:
    busy = Busy(compute, operation, LOCKED)
    ask(compute, action, 1)
    ((_, _, reason),) = compute.conductor.action_failures
    assert reason.startswith(str(LOCKED))
    assert "hard reboot" in reason
    assert 600 <= busy.now <= 600 + 2 * ANSWERS_AFTER
    assert state(compute)[1] is None
    ask(compute, REBOOT_HARD, 2)
    assert state(compute) == (VmState.ACTIVE, None, PowerState.RUNNING)


def test_action_waits_for_a_job_that_libvirt_names_however_long_it_takes(compute: Compute) -> None:
    busy = Busy(compute, "suspend", *[SAVING] * 100, None)
    ask(compute, SUSPEND, 1)
    assert busy.tries == 101
    assert state(compute)[:2] == (VmState.SUSPENDED, None)


def test_time_counts_from_the_last_sight_of_the_job(compute: Compute) -> None:
    """libvirt does not answer in each step of a job."""
    Busy(compute, "suspend", *[*[LOCKED] * 15, SAVING] * 4, None)
    ask(compute, SUSPEND, 1)
    assert state(compute)[:2] == (VmState.SUSPENDED, None)
