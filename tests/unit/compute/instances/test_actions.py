"""Server actions on a host: the question before, the operation, the report after."""

import pytest

from minova import errors
from minova.compute.instances.actions import shutdown_timeout
from minova.objects.image import Image
from minova.objects.instance import Instance
from minova.objects.server_actions import START, STOP, ServerAction
from minova.objects.states import PowerState, VmState
from tests.fakes.computes import CTX, FLAVOR, Compute


@pytest.fixture
def compute() -> Compute:
    made = Compute().start()
    made.boot("i")
    return made


def ask(compute: Compute, action: ServerAction, action_id: int) -> None:
    """The message of an action that is in progress."""
    send(compute, action, compute.conductor.commit_action("i", action, action_id), action_id)
    compute.run()


def send(compute: Compute, action: ServerAction, instance: Instance, action_id: int) -> None:
    getattr(compute.manager, action.method)(CTX, instance=instance, action_id=action_id)


def state(compute: Compute) -> tuple[VmState, object, PowerState]:
    instance = compute.conductor.instances["i"]
    return instance.vm_state, instance.task_state, instance.power_state


def test_a_stop_and_a_start(compute: Compute) -> None:
    ask(compute, STOP, 1)
    assert state(compute) == (VmState.STOPPED, None, PowerState.SHUTDOWN)
    assert compute.domains() == {"i": PowerState.SHUTDOWN}
    assert compute.used() == (1024, 10, 2)
    ask(compute, START, 2)
    assert state(compute) == (VmState.ACTIVE, None, PowerState.RUNNING)
    assert compute.domains() == {"i": PowerState.RUNNING}


def test_a_message_that_comes_late_does_nothing(compute: Compute) -> None:
    instance = compute.conductor.commit_action("i", STOP, 1)
    send(compute, STOP, instance, 1)
    send(compute, STOP, instance, 1)
    compute.run()
    ask(compute, START, 2)
    send(compute, STOP, instance, 1)
    compute.run()
    assert compute.hypervisor.calls.count("power_off") == 1
    assert state(compute) == (VmState.ACTIVE, None, PowerState.RUNNING)


def test_an_operation_that_fails_is_reported_with_its_reason(compute: Compute) -> None:
    with compute.hypervisor_fails("power_off", error=errors.HypervisorUnavailable("libvirt does not answer")):
        ask(compute, STOP, 1)
    assert compute.conductor.action_failures == [("i", 1, "libvirt does not answer")]
    assert state(compute)[:2] == (VmState.ACTIVE, None)


def test_a_stopped_server_is_not_stopped_again_once_a_start_is_in_progress(compute: Compute) -> None:
    """The audit has seen the domain run while the row still said stopped."""
    ask(compute, STOP, 1)
    compute.hypervisor.turn("i", PowerState.RUNNING)
    compute.manager.update_available_resource()
    compute.conductor.commit_action("i", START, 2)
    compute.hypervisor.calls.clear()
    compute.run()
    assert "power_off" not in compute.hypervisor.calls


@pytest.mark.parametrize(("told", "expected"), [(None, 60.0), ("300", 300.0), ("0", 0.0), ("-5", 0.0), ("soon", 60.0)])
def test_an_image_may_say_how_long_its_guest_takes_to_shut_down(told: str | None, expected: float) -> None:
    properties = {} if told is None else {"os_shutdown_timeout": told}
    image = Image(id="an-image", status="active", disk_format="raw", properties=properties)
    instance = Instance(uuid="i", display_name="vm", flavor=FLAVOR, image=image)
    assert shutdown_timeout(instance, 60) == expected
