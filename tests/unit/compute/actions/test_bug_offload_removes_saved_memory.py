"""Bug: the shelving of a server whose suspend had ended late removed the memory that the suspend had saved."""

import pytest

from minova.objects.actions.power import SUSPEND
from minova.objects.actions.shelving import SHELVE, SHELVE_OFFLOAD
from minova.objects.catalogue.image import Image
from minova.objects.servers.states import PowerState, VmState
from tests.fakes.computes import Compute
from tests.unit.compute.actions.test_runner import ask, state


@pytest.fixture
def compute() -> Compute:
    compute = Compute().start()
    compute.boot("i", image=Image(id="own"))
    return compute


def save_late(compute: Compute, vm_state: VmState) -> None:
    """The memory is saved once the conductor has given up the suspend."""
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    compute.hypervisor.saved.add("i")
    compute.conductor.change("i", vm_state=vm_state)


@pytest.mark.parametrize("vm_state", [VmState.ACTIVE, VmState.STOPPED, VmState.PAUSED])
def test_server_with_saved_memory_is_not_shelved_unless_it_is_suspended(compute: Compute, vm_state: VmState) -> None:
    save_late(compute, vm_state)
    ask(compute, SHELVE, 1)
    assert state(compute)[:2] == (vm_state, None)
    assert compute.uploads.uploaded == {}
    assert compute.conductor.untouched == [True]
    assert "The memory of instance i is saved" in compute.conductor.action_failures[0][2]


def test_offload_leaves_memory_that_was_saved_without_a_suspend(compute: Compute) -> None:
    save_late(compute, VmState.SHELVED)
    ask(compute, SHELVE_OFFLOAD, 1)
    assert compute.domains() == {"i": PowerState.SHUTDOWN}
    assert state(compute)[:2] == (VmState.SHELVED, None)
    assert compute.conductor.untouched == [True]
    assert "The memory of instance i is saved" in compute.conductor.action_failures[0][2]


def test_suspended_server_is_shelved_and_offloaded(compute: Compute) -> None:
    ask(compute, SUSPEND, 1)
    compute.hypervisor.saved.add("i")
    ask(compute, SHELVE, 2)
    # An attempt that fails does not change what the user has said.
    with compute.hypervisor_fails("destroy", error=OSError("no"), times=1):
        ask(compute, SHELVE_OFFLOAD, 3)
    ask(compute, SHELVE_OFFLOAD, 4)
    assert compute.domains() == {}
    assert state(compute)[:2] == (VmState.SHELVED_OFFLOADED, None)
