"""Bugs: the offload of a shelved server removed its disk although an overlay of a snapshot beside it had later writes than its
image. A later version of it did so if the domain was lost.
"""

import pytest

from minova.objects.actions.shelving import SHELVE_OFFLOAD
from minova.objects.catalogue.image import Image
from minova.objects.servers.states import PowerState, VmState
from tests.fakes.computes import Compute
from tests.unit.compute.actions.test_runner import ask, state


@pytest.mark.parametrize("has_domain", [True, False])
def test_offload_leaves_a_guest_whose_overlay_is_not_committed(*, has_domain: bool) -> None:
    compute = Compute().start()
    compute.boot("i", image=Image(id="own"))
    compute.conductor.change("i", vm_state=VmState.SHELVED)
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    if not has_domain:
        compute.hypervisor.destroy("i")
    compute.hypervisor.destroyed.clear()
    compute.hypervisor.aside.add("i")
    ask(compute, SHELVE_OFFLOAD, 1)
    assert compute.hypervisor.destroyed == []
    assert state(compute)[:2] == (VmState.SHELVED, None)
    assert compute.conductor.untouched == [True]
    assert "not committed" in compute.conductor.action_failures[0][2]
    compute.hypervisor.end_snapshot("i")
    ask(compute, SHELVE_OFFLOAD, 2)
    assert compute.domains() == {}
