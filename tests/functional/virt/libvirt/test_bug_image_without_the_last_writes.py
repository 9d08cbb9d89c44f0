"""Bugs: an image of a suspended guest whose earlier snapshot was still open lacked what its overlay had, and the offload of a shelved
server then removed the only copy. It did so, too, once the domain was lost.
"""

from pathlib import Path

import pytest

from minova.errors import SavedMemoryKept
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.libvirt.driver import LibvirtDriver
from minova.virt.libvirt.storage.guest_folders import OVERLAY
from tests.functional.virt.libvirt.test_driver import domain_of, running

__all__ = ["running"]


def test_guest_with_saved_memory_and_an_open_overlay_gets_no_image(
    running: tuple[LibvirtDriver, Instance],
    tmp_path: Path,
) -> None:
    driver, guest = running
    driver.suspend(guest.uuid)
    overlay = driver._disks.folder(guest.uuid) / OVERLAY
    overlay.touch()
    with pytest.raises(SavedMemoryKept, match="Start the server"):
        driver.snapshot(guest, tmp_path / "copy", lambda: None)
    assert overlay.exists()
    assert not (tmp_path / "copy").exists()
    overlay.unlink()
    driver.snapshot(guest, tmp_path / "copy", lambda: None)
    assert driver.power_state(guest.uuid) is PowerState.SHUTDOWN


def test_open_overlay_is_known_though_the_domain_is_lost(running: tuple[LibvirtDriver, Instance]) -> None:
    driver, guest = running
    assert not driver.has_open_snapshot(guest.uuid)
    (driver._disks.folder(guest.uuid) / OVERLAY).touch()
    domain = domain_of(driver, guest.uuid)
    domain.destroy()
    domain.undefine()
    assert driver.has_open_snapshot(guest.uuid)
