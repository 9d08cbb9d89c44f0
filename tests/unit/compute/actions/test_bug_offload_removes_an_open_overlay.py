"""Bug: the offload of a shelved server removed its disk although an overlay of a snapshot beside it had later writes than its image."""

from minova.objects.actions.server_actions import SHELVE_OFFLOAD
from minova.objects.catalogue.image import Image
from minova.objects.servers.states import PowerState, VmState
from tests.fakes.computes import Compute
from tests.unit.compute.actions.test_actions import ask, state


def test_offload_leaves_a_guest_whose_overlay_is_not_committed() -> None:
    compute = Compute().start()
    compute.boot("i", image=Image(id="own"))
    compute.conductor._write("i", vm_state=VmState.SHELVED)
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    compute.hypervisor.aside.add("i")
    ask(compute, SHELVE_OFFLOAD, 1)
    assert compute.domains() == {"i": PowerState.SHUTDOWN}
    assert state(compute)[:2] == (VmState.SHELVED, None)
    assert "not committed" in compute.conductor.action_failures[0][2]
    compute.hypervisor.end_snapshot("i")
    ask(compute, SHELVE_OFFLOAD, 2)
    assert compute.domains() == {}
