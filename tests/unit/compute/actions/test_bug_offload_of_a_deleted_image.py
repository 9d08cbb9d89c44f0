"""An offload that had waited for its host removed the disk of a server whose image had been deleted meanwhile, in Glance for example."""

import msgspec
import pytest

from minova import errors
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.actions.shelving import SHELVE_OFFLOAD
from minova.objects.catalogue.image import Image
from minova.objects.servers.states import PowerState, VmState
from tests.fakes.computes import CTX, Compute
from tests.unit.compute.actions.test_runner import state

SHELVED = Image(id="shelved", status="active", size=3)


@pytest.fixture
def compute() -> Compute:
    compute = Compute().start()
    compute.boot("i", image=Image(id="own"))
    compute.conductor.change("i", vm_state=VmState.SHELVED)
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    compute.hypervisor.wants_image = True
    compute.hypervisor.destroyed.clear()
    return compute


def offload(compute: Compute, action_id: int) -> None:
    instance = compute.conductor.commit_action("i", SHELVE_OFFLOAD, action_id)
    compute.manager.run_action(CTX, instance, action_id, SHELVE_OFFLOAD.kind, HostArguments(image=SHELVED))
    compute.run()


@pytest.mark.parametrize(
    "refusal", [errors.ImageUnacceptable("it is not there"), errors.ServiceUnavailable("it does not answer")]
)
def test_the_disk_stays_unless_the_image_service_has_the_image(compute: Compute, refusal: errors.MinovaError) -> None:
    compute.images.refuse = refusal
    offload(compute, 1)
    assert compute.hypervisor.destroyed == []
    assert state(compute)[:2] == (VmState.SHELVED, None)
    assert compute.conductor.untouched == [True]
    assert compute.conductor.action_failures == [("i", 1, str(refusal))]
    compute.images.refuse = None
    offload(compute, 2)
    assert compute.domains() == {}
    assert compute.images.asked_for == ["shelved", "shelved"]


def test_the_disk_stays_if_the_conductor_has_no_image_any_more(compute: Compute) -> None:
    """The image is deleted after the host has seen it, and before it removes the disk."""

    def deleted(method: str) -> None:
        if method == "begin_action" and compute.images.asked_for:
            raise errors.StaleAttempt("the image is gone")

    compute.conductor.on_call = deleted
    offload(compute, 1)
    assert compute.images.asked_for == ["shelved"]
    assert compute.hypervisor.destroyed == []


def test_a_conductor_of_an_earlier_release_names_no_image(compute: Compute) -> None:
    instance = compute.conductor.commit_action("i", SHELVE_OFFLOAD, 1)
    compute.manager.run_action(CTX, msgspec.structs.replace(instance), 1, SHELVE_OFFLOAD.kind, HostArguments())
    compute.run()
    assert compute.domains() == {}
