"""Bug: actions that a conductor had given up went on at their host. A guest that took longer than `action_timeout` could
never start, and a second start hard-rebooted the guest that had just booted.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from minova import errors
from minova.compute.instances.abandonment import Abandoned
from minova.objects.actions.action import ServerAction
from minova.objects.actions.deletion import RESTORE
from minova.objects.actions.power import REBOOT_HARD, START, STOP, SUSPEND, TRIGGER_CRASH_DUMP
from minova.objects.actions.shelving import SHELVE_OFFLOAD, UNSHELVE
from minova.objects.actions.table import RUN_BY_HOSTS
from minova.objects.catalogue.image import Image
from minova.objects.servers.states import PowerState, VmState
from tests.fakes.computes import CTX, Compute
from tests.fakes.conductor import FakeConductor
from tests.unit.compute.actions.test_runner import ask, send, state

Beat = Callable[[], bool]
REFUSED = ("i", 1, "it did not begin within 600 s")


def started(**options: Any) -> Compute:
    """A compute with a guest that runs."""
    service = Compute(**options).start()
    service.boot("i", image=Image(id="own"))
    return service


@pytest.fixture
def compute() -> Compute:
    return started()


def cancel(compute: Compute, action_id: int = 1) -> None:
    compute.manager.cancel_action(CTX, instance_uuid="i", action_id=action_id)


# -- signs of life ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", RUN_BY_HOSTS, ids=lambda action: action.kind)
def test_each_action_gives_signs_of_life_while_its_operation_lasts(action: ServerAction) -> None:
    beats: list[tuple[float, Beat]] = []
    signs: list[str] = []

    @contextmanager
    def repeated(seconds: float, beat: Beat) -> Iterator[None]:
        beats.append((seconds, beat))
        before = len(signs)
        assert beat()
        assert len(signs) == before + 1
        yield

    compute = started(repeated=repeated)
    signs = compute.conductor.progressed
    compute.conductor.change("i", vm_state=min(action.vm_states))
    if action is SHELVE_OFFLOAD:
        compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    ask(compute, action, 1)
    ((seconds, beat),) = beats
    # Several of them fit into the time after which the conductor asks the host to cancel.
    assert seconds <= (15.0 if action.secret else 60.0)
    assert not beat()


def test_a_wait_ends_once_the_conductor_answers_that_the_action_has_ended() -> None:
    conductor = FakeConductor()

    @contextmanager
    def repeated(seconds: float, beat: Beat) -> Iterator[None]:
        conductor.end_action("i")
        assert not beat()
        yield

    compute = started(conductor=conductor, repeated=repeated)
    seen: list[bool] = []
    compute.hypervisor.waits_for_guest = lambda cancelled: seen.append(cancelled.is_set())
    ask(compute, STOP, 1)
    assert seen == [True]


# -- cancellations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message_comes", ["before", "after", "never"])
def test_an_action_that_has_not_begun_never_begins(compute: Compute, message_comes: str) -> None:
    instance = compute.conductor.commit_action("i", STOP, 1)
    if message_comes == "before":
        send(compute, STOP, instance, 1)
        compute.queue.append(compute.queue.pop(0))
    cancel(compute)
    compute.queue.insert(0, compute.queue.pop())
    compute.queue.pop(0)()
    assert compute.conductor.action_failures == [REFUSED]
    assert compute.conductor.untouched == [True]
    if message_comes == "after":
        send(compute, STOP, instance, 1)
    compute.run()
    assert compute.domains() == {"i": PowerState.RUNNING}
    assert state(compute) == (VmState.ACTIVE, None, PowerState.RUNNING)


def test_a_cancelled_action_does_not_begin_though_no_conductor_has_heard_of_the_cancellation(compute: Compute) -> None:
    instance = compute.conductor.commit_action("i", STOP, 1)
    send(compute, STOP, instance, 1)
    with compute.conductor_loses("action_failed"):
        cancel(compute)
        compute.queue.insert(0, compute.queue.pop())
        compute.run_through_errors()
    assert compute.domains() == {"i": PowerState.RUNNING}
    cancel(compute)
    compute.run()
    assert compute.conductor.action_failures == [REFUSED]


def test_an_action_that_has_begun_continues_and_says_so(compute: Compute) -> None:
    def cancelled_meanwhile(cancelled: object) -> None:
        cancel(compute)
        compute.queue.pop()()

    compute.hypervisor.waits_for_guest = cancelled_meanwhile
    before = len(compute.conductor.progressed)
    ask(compute, STOP, 1)
    assert len(compute.conductor.progressed) == before + 1
    assert compute.conductor.action_failures == []
    assert state(compute) == (VmState.STOPPED, None, PowerState.SHUTDOWN)


def test_an_action_that_an_earlier_process_has_begun_is_not_called_untouched(tmp_path: Path) -> None:
    """The process was killed in the middle of it. The conductor asks for the action again."""
    compute = Compute(results=tmp_path).start()
    compute.boot("i")
    instance = compute.conductor.commit_action("i", REBOOT_HARD, 1)
    send(compute, REBOOT_HARD, instance, 1)
    killed: Any = Abandoned()
    with pytest.raises(Abandoned), compute.hypervisor_fails("hard_reboot", error=killed, times=1):
        compute.run()
    compute.restart()
    cancel(compute)
    compute.run()
    assert compute.conductor.action_failures == []
    assert compute.conductor.progressed == [""]
    send(compute, REBOOT_HARD, instance, 1)
    compute.run()
    assert state(compute) == (VmState.ACTIVE, None, PowerState.RUNNING)
    assert list(tmp_path.iterdir()) == []


def test_a_result_that_no_conductor_has_received_is_not_cancelled(compute: Compute) -> None:
    instance = compute.conductor.commit_action("i", STOP, 1)
    with compute.conductor_loses("action_succeeded"):
        send(compute, STOP, instance, 1)
        compute.run_through_errors()
    cancel(compute)
    compute.run()
    assert compute.conductor.action_failures == []
    send(compute, STOP, instance, 1)
    compute.run()
    assert state(compute) == (VmState.STOPPED, None, PowerState.SHUTDOWN)


# -- guests that run ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [START, RESTORE, UNSHELVE], ids=lambda action: action.kind)
def test_a_guest_that_runs_already_is_left_running(compute: Compute, action: ServerAction) -> None:
    compute.conductor.change("i", vm_state=min(action.vm_states))
    compute.hypervisor.calls.clear()
    ask(compute, action, 1)
    assert {"hard_reboot", "power_off", "shut_down"}.isdisjoint(compute.hypervisor.calls)
    assert state(compute) == (VmState.ACTIVE, None, PowerState.RUNNING)


def test_a_second_start_does_not_reboot_what_the_first_has_started(compute: Compute) -> None:
    ask(compute, STOP, 1)
    ask(compute, START, 2)
    compute.conductor.change("i", vm_state=VmState.STOPPED)
    compute.hypervisor.calls.clear()
    ask(compute, START, 3)
    assert "hard_reboot" not in compute.hypervisor.calls


@pytest.mark.parametrize("power_state", [PowerState.RUNNING, PowerState.PAUSED, PowerState.SUSPENDED])
def test_the_disks_of_a_guest_that_runs_are_not_removed_by_an_offload(
    compute: Compute, power_state: PowerState
) -> None:
    """They are newer than the image of its shelving."""
    compute.conductor.change("i", vm_state=VmState.SHELVED)
    compute.hypervisor.turn("i", power_state)
    ask(compute, SHELVE_OFFLOAD, 1)
    assert compute.domains() == {"i": power_state}
    assert state(compute)[:2] == (VmState.SHELVED, None)
    assert "newer than the image" in compute.conductor.action_failures[0][2]


# -- hypervisors that are away, guests that are busy ----------------------------------------------------------------------

OPERATIONS = {
    "stop": "shut_down",
    "start": "hard_reboot",
    "restore": "hard_reboot",
    "unshelve": "hard_reboot",
    "unrescue": "hard_reboot",
    "reboot_hard": "hard_reboot",
    "reboot_soft": "shut_down",
    "soft_delete": "shut_down",
    "shelve": "shut_down",
    "shelve_offload": "destroy",
    "trigger_crash_dump": "inject_nmi",
    "change_password": "set_admin_password",
    "backup": "snapshot",
}


@pytest.mark.parametrize("error", [errors.HypervisorUnavailable("away"), errors.GuestBusy("a job is running")])
@pytest.mark.parametrize("action", RUN_BY_HOSTS, ids=lambda action: action.kind)
def test_an_operation_begins_again_once_the_hypervisor_can_do_it(
    compute: Compute, action: ServerAction, error: Exception
) -> None:
    compute.conductor.change("i", vm_state=min(action.vm_states))
    if action in (START, RESTORE, UNSHELVE, SHELVE_OFFLOAD):
        compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    operation = OPERATIONS.get(action.kind, action.kind)
    with compute.hypervisor_fails(operation, error=error, times=2):
        ask(compute, action, 1)
    if action is TRIGGER_CRASH_DUMP:  # a second interrupt would spoil the first dump
        assert compute.conductor.action_failures == [("i", 1, str(error))]
        return
    assert compute.conductor.action_failures == []
    assert state(compute)[:2] == (action.after_success(min(action.vm_states)), None)


def test_an_operation_waits_until_the_hypervisor_answers(compute: Compute) -> None:
    with compute.hypervisor_fails(error=errors.HypervisorUnavailable("away"), times=200):
        ask(compute, SUSPEND, 1)
    assert state(compute)[:2] == (VmState.SUSPENDED, None)


def test_a_hypervisor_that_stays_away_is_a_failure_of_unknown_power_state(compute: Compute) -> None:
    compute.ticks = itertools.count().__next__
    with compute.hypervisor_fails(error=errors.HypervisorUnavailable("away"), times=100_000):
        ask(compute, SUSPEND, 1)
    assert compute.conductor.action_failures == [("i", 1, "away")]
    assert compute.conductor.failed_power_states == [None]


def test_an_operation_that_breaks_the_connection_each_time_fails(compute: Compute) -> None:
    with compute.hypervisor_fails("suspend", error=errors.HypervisorUnavailable("broken")):
        ask(compute, SUSPEND, 1)
    assert compute.conductor.action_failures == [("i", 1, "broken")]


def test_a_deletion_ends_the_wait_for_a_busy_guest(compute: Compute) -> None:
    def deletion_comes(operation: str) -> None:
        if operation == "suspend":
            compute.delete_meanwhile("i")
            raise errors.GuestBusy("a job is running")

    compute.hypervisor.on_call = deletion_comes
    ask(compute, SUSPEND, 1)
    assert compute.domains() == {}
