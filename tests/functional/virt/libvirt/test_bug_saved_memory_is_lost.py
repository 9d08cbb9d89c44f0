"""A start removed the memory that a suspend had saved, and so did a rescue."""

from collections.abc import Callable
from typing import Any

import libvirt
import pytest

from minova.errors import GuestBusy, GuestJobRuns, SavedMemoryKept
from minova.objects.catalogue.image import Image
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.driver import ComputeDriver
from minova.virt.libvirt.guest_state import jobs, saved_memory
from tests.fakes.libvirt_errors import libvirt_error
from tests.functional.virt.libvirt.test_driver import domain_of, instance


def test_start_goes_on_from_saved_memory(driver: ComputeDriver, guest: Instance) -> None:
    driver.suspend(guest.uuid)
    before = domain_of(driver, guest.uuid).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    changed = instance(uuid=guest.uuid, node="n", attempt=3, display_name="renamed")
    assert driver.start(changed) is PowerState.RUNNING
    # It was not defined anew, which removes the memory, and libvirt has used it up.
    assert domain_of(driver, guest.uuid).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE) == before
    assert not domain_of(driver, guest.uuid).hasManagedSaveImage()


@pytest.mark.parametrize("before", ["running", "paused", "off", "gone"])
def test_start_runs_the_guest_and_ends_none(driver: ComputeDriver, guest: Instance, before: str) -> None:
    bring_about: dict[str, Callable[[], Any]] = {
        "running": lambda: None,
        "paused": lambda: driver.pause(guest.uuid),
        "off": lambda: driver.power_off(guest.uuid),
        "gone": lambda: driver.destroy(guest.uuid),
    }
    bring_about[before]()
    # libvirt gives a domain another id each time that it starts.
    ids = [domain_of(driver, guest.uuid).ID()] if before in {"running", "paused"} else []
    for _ in range(2):
        assert driver.start(guest) is PowerState.RUNNING
        ids.append(domain_of(driver, guest.uuid).ID())
    assert driver.power_state(guest.uuid) is PowerState.RUNNING
    assert len(set(ids)) == 1


def test_rescue_keeps_saved_memory_and_says_how_to_go_on(driver: ComputeDriver, guest: Instance) -> None:
    assert not driver.has_saved_memory(guest.uuid)
    driver.suspend(guest.uuid)
    assert driver.has_saved_memory(guest.uuid)
    for act in (
        lambda: driver.prepare_rescue(guest, Image(id="rescuer"), None),
        lambda: driver.rescue(guest, Image(id="rescuer")),
    ):
        with pytest.raises(SavedMemoryKept, match="Start the server"):
            act()
    assert domain_of(driver, guest.uuid).hasManagedSaveImage()


class Saving:
    """A domain whose memory is being saved, or about which libvirt does not answer for its job; `is_saving` False: it runs,
    and has memory that was saved before.
    """

    def __init__(self, error: libvirt.libvirtError | None = None, *, is_saving: bool = True) -> None:
        self._error = error
        self._is_saving = is_saving
        self.has_memory = True

    def hasManagedSaveImage(self) -> bool:  # noqa: N802
        return self.has_memory

    def managedSaveRemove(self) -> None:  # noqa: N802
        self.has_memory = False

    def name(self) -> str:
        return "guest"

    def isActive(self) -> bool:  # noqa: N802
        return True

    def jobInfo(self) -> list[int]:  # noqa: N802
        if self._error is not None:
            raise self._error
        return [libvirt.VIR_DOMAIN_JOB_UNBOUNDED if self._is_saving else libvirt.VIR_DOMAIN_JOB_NONE]

    def jobStats(self) -> dict[str, int]:  # noqa: N802
        return {"operation": libvirt.VIR_DOMAIN_JOB_OPERATION_SAVE}


def test_guest_whose_memory_is_being_saved_is_busy() -> None:
    for require in (jobs.require_free, jobs.require_not_saving):
        with pytest.raises(GuestJobRuns, match="guest"):
            require(Saving())
    locked = Saving(libvirt_error("cannot acquire state change lock", libvirt.VIR_ERR_OPERATION_TIMEOUT))
    with pytest.raises(GuestBusy, match="guest") as busy:
        jobs.require_free(locked)
    # Its monitor may hang: that is no job whose end is certain.
    assert not isinstance(busy.value, GuestJobRuns)


def test_memory_that_a_running_guest_has_used_is_removed_and_no_save_in_progress() -> None:
    """libvirtd may have died between the start and the removal. A later start would put old memory over a newer disk."""
    saving, running = Saving(), Saving(is_saving=False)
    for domain in (saving, running):
        saved_memory.forget_used(domain)
    assert (saving.has_memory, running.has_memory) == (True, False)
