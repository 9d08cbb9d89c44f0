"""What a host does about guests that shut themselves down, and about those that are started behind the cloud's back."""

import threading

import pytest

from minova.compute.instances.clean_stops import ASK_AGAIN
from minova.objects.actions.guest_changes import LastAction
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.actions.power import START
from minova.objects.actions.power_rules import must_stop
from minova.objects.catalogue.image import Image
from minova.objects.servers.states import PowerState, VmState
from tests.fakes.computes import CTX, Compute


@pytest.fixture
def compute() -> Compute:
    service = Compute().start()
    service.boot("i")
    return service


def audited(compute: Compute) -> VmState:
    compute.manager.update_available_resource()
    compute.run()
    compute.manager.report_changes()
    return compute.conductor.instances["i"].vm_state


@pytest.mark.parametrize("vm_state", list(VmState))
@pytest.mark.parametrize("power_state", list(PowerState))
def test_which_domains_must_be_stopped(vm_state: VmState, power_state: PowerState) -> None:
    is_stopped = vm_state in (VmState.STOPPED, VmState.SOFT_DELETED)
    assert must_stop(vm_state, power_state) == (is_stopped and power_state is PowerState.RUNNING)


def test_a_guest_that_shuts_itself_down_is_stopped_and_keeps_its_room(compute: Compute) -> None:
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    compute.manager.report_changes()
    assert audited(compute) is VmState.STOPPED
    assert compute.used() == (1024, 10, 2)
    assert compute.hypervisor.calls.count("power_on") == 1


def test_bug_row_of_a_guest_that_was_off_when_it_became_active(compute: Compute) -> None:
    """The power of its host was cut before its build was reported: the guest was found off, and its row said so and stayed active."""
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    compute.conductor.change("i", power_state=PowerState.SHUTDOWN)
    compute.manager.report_changes()
    compute.conductor.change("i", vm_state=VmState.ACTIVE)
    assert audited(compute) is VmState.STOPPED


def test_a_stopped_guest_that_is_started_by_hand_is_stopped_again(compute: Compute) -> None:
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    compute.manager.report_changes()
    compute.hypervisor.turn("i", PowerState.RUNNING)
    assert audited(compute) is VmState.STOPPED
    assert compute.domains() == {"i": PowerState.SHUTDOWN}
    assert compute.conductor.instances["i"].power_state is PowerState.SHUTDOWN


@pytest.mark.parametrize("power_state", [PowerState.SUSPENDED, PowerState.PAUSED])
@pytest.mark.parametrize("vm_state", [VmState.ACTIVE, VmState.STOPPED, VmState.SOFT_DELETED, VmState.SHELVED])
def test_bug_audit_destroys_a_guest_that_cannot_shut_itself_down(
    compute: Compute, vm_state: VmState, power_state: PowerState
) -> None:
    """It keeps its memory."""
    compute.conductor.change("i", vm_state=vm_state)
    compute.hypervisor.turn("i", power_state)
    assert audited(compute) is vm_state
    assert compute.domains() == {"i": power_state}


@pytest.mark.parametrize("vm_state", [VmState.STOPPED, VmState.SOFT_DELETED])
def test_bug_audit_destroys_a_guest_that_does_not_shut_down(compute: Compute, vm_state: VmState) -> None:
    compute.conductor.change("i", vm_state=vm_state, power_state=PowerState.SHUTDOWN)
    compute.hypervisor.shuts_down = False
    now = 0.0
    compute.ticks = lambda: now
    for now in (0.0, 60.0, ASK_AGAIN + 1):  # noqa: B007  - the compute's clock reads it
        assert audited(compute) is vm_state
        assert compute.domains() == {"i": PowerState.RUNNING}
    assert compute.hypervisor.calls.count("shut_down") == 2
    assert "power_off" not in compute.hypervisor.calls
    assert compute.conductor.instances["i"].power_state is PowerState.RUNNING


def test_bug_audit_stops_a_shelved_guest_whose_disk_is_newer_than_its_image(compute: Compute) -> None:
    compute.conductor.change("i", vm_state=VmState.SHELVED, power_state=PowerState.SHUTDOWN)
    audited(compute)
    assert "shut_down" not in compute.hypervisor.calls
    assert compute.domains() == {"i": PowerState.RUNNING}


def test_a_deletion_does_not_wait_for_a_guest_that_is_asked_to_shut_down(compute: Compute) -> None:
    def deletion_comes(cancelled: threading.Event) -> None:
        compute.delete_meanwhile("i")
        seen.append(cancelled.is_set())

    seen: list[bool] = []
    compute.conductor.change("i", vm_state=VmState.STOPPED, power_state=PowerState.SHUTDOWN)
    compute.hypervisor.waits_for_guest = deletion_comes
    compute.manager.update_available_resource()
    compute.run()
    assert (seen, compute.domains()) == ([True], {})


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
    assert "shut_down" not in compute.hypervisor.calls


def test_bug_late_report_says_that_a_guest_is_off_that_was_started_since(compute: Compute) -> None:
    """The first report waits at a conductor until the guest has been started again."""

    def starts_meanwhile(method: str) -> None:
        if method == "report_power_states":
            compute.conductor.on_answer = lambda method: None
            compute.hypervisor.turn("i", PowerState.RUNNING)

    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    compute.conductor.on_answer = starts_meanwhile
    compute.manager.report_changes()
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE
    assert compute.conductor.instances["i"].power_state is PowerState.RUNNING


def test_a_report_that_an_action_has_overtaken_is_made_again(compute: Compute) -> None:
    def acts_meanwhile(method: str) -> None:
        if method == "report_power_states":
            compute.conductor.on_answer = lambda method: None
            compute.conductor.last_actions["i"] = LastAction(number=7)

    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    compute.conductor.on_answer = acts_meanwhile
    compute.manager.report_changes()
    states = [compute.conductor.instances["i"].vm_state]
    compute.manager.report_changes()
    states.append(compute.conductor.instances["i"].vm_state)
    assert states == [VmState.ACTIVE, VmState.STOPPED]


def found_running(compute: Compute, properties: dict[str, str] | None = None) -> None:
    """An audit asks the guest of a stopped server to shut down."""
    compute.conductor.change(
        "i",
        vm_state=VmState.STOPPED,
        power_state=PowerState.SHUTDOWN,
        image=Image(id="own", properties=properties or {}),
    )
    compute.manager.update_available_resource()


def test_bug_action_waits_for_a_guest_that_an_audit_asks_to_shut_down(compute: Compute) -> None:
    """The image's owner chose how long, and the instance's lock was held."""
    seen: list[bool] = []

    def start_comes(cancelled: threading.Event) -> None:
        seen.append(cancelled.is_set())
        instance = compute.conductor.commit_action("i", START, 1)
        compute.manager.run_action(CTX, instance, 1, START.kind, HostArguments())
        seen.append(cancelled.is_set())

    found_running(compute)
    compute.hypervisor.waits_for_guest = start_comes
    compute.run()
    assert seen == [False, True]
    assert compute.domains() == {"i": PowerState.RUNNING}
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE


def test_a_guest_is_not_asked_to_shut_down_once_an_action_has_come(compute: Compute) -> None:
    """It came after the row was read, and before the guest was asked."""
    found_running(compute)

    def start_comes(operation: str) -> None:
        if operation == "power_state":
            compute.hypervisor.on_call = lambda operation: None
            instance = compute.conductor.commit_action("i", START, 1)
            compute.manager.run_action(CTX, instance, 1, START.kind, HostArguments())

    compute.hypervisor.on_call = start_comes
    compute.run()
    assert "shut_down" not in compute.hypervisor.calls
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE


@pytest.mark.parametrize(("wanted", "waited"), [("31536000", 60.0), ("5", 5.0), ("0", 60.0)])
def test_bug_image_chooses_how_long_an_audit_holds_the_lock(compute: Compute, wanted: str, waited: float) -> None:
    found_running(compute, {"os_shutdown_timeout": wanted})
    compute.run()
    assert compute.hypervisor.timeouts == [waited]
