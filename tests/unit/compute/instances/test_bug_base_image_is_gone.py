"""A start failed with "Cannot access backing file" if the base image had been removed from the host."""

from pathlib import Path

import pytest

from minova import errors
from minova.objects.actions.power import REBOOT_HARD, START, STOP
from minova.objects.catalogue.image import Image
from minova.objects.servers.states import PowerState, VmState
from tests.fakes.computes import Compute
from tests.unit.compute.actions.test_runner import ask, state

LOST = Path("/instances/_base/d1935e")


@pytest.fixture
def compute() -> Compute:
    compute = Compute().start()
    compute.boot("i")
    compute.conductor.change("i", image=Image(id="own", os_hash_value=LOST.name))
    compute.hypervisor.lost_bases["i"] = LOST
    compute.images.on_fetch = lambda check: compute.hypervisor.lost_bases.clear()
    return compute


@pytest.mark.parametrize("actions", [(REBOOT_HARD,), (STOP, START)])
def test_base_image_is_fetched_again(compute: Compute, actions: tuple[object, ...]) -> None:
    for number, action in enumerate(actions, 1):
        ask(compute, action, number)  # type: ignore[arg-type]
    assert compute.images.fetched == ["own"]
    assert state(compute) == (VmState.ACTIVE, None, PowerState.RUNNING)


@pytest.mark.parametrize(
    ("image", "refuse"),
    [
        (Image(id="own", os_hash_value=LOST.name), errors.ImageUnacceptable("Image own is not at the image service")),
        (Image(id="rebuilt", os_hash_value="another"), None),
        (None, None),
    ],
)
def test_guest_that_runs_without_its_base_image_is_left_running(
    compute: Compute, image: Image | None, refuse: Exception | None
) -> None:
    """A hard reboot would end it for good: QEMU has the file still open."""
    compute.conductor.change("i", image=image)
    compute.images.refuse = refuse
    compute.images.on_fetch = lambda check: None
    compute.hypervisor.calls.clear()
    ask(compute, REBOOT_HARD, 1)
    assert "hard_reboot" not in compute.hypervisor.calls
    assert compute.domains() == {"i": PowerState.RUNNING}
    ((_, _, reason),) = compute.conductor.action_failures
    assert str(LOST) in reason
    assert compute.conductor.untouched == [True]


def test_guest_that_is_started_after_a_boot_of_its_host_gets_its_base_image() -> None:
    compute = Compute(resume_guests_state_on_host_boot=True).start()
    compute.boot("i")
    compute.conductor.change("i", image=Image(id="own", os_hash_value=LOST.name))
    compute.hypervisor.lost_bases["i"] = LOST
    compute.images.on_fetch = lambda check: compute.hypervisor.lost_bases.clear()
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    compute.restart()
    compute.run()
    assert compute.images.fetched == ["own"]
    assert compute.domains() == {"i": PowerState.RUNNING}
