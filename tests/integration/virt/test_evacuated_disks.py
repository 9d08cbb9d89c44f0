"""A guest whose host has died goes on from its disk on another host, by real QEMU on a shared folder."""

from pathlib import Path

import pytest

from minova.errors import HypervisorError
from minova.objects.servers.states import PowerState
from minova.virt.driver import ComputeDriver
from minova.virt.driver.domains import RowHost
from tests.integration.virt.test_guest import instance, load
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for


def boots(driver: ComputeDriver, uuid: str, times: int) -> None:
    """The count is on the disk of the guest."""
    words = f"MINOVA-GUEST BOOTS {times}"
    wait_for(words, lambda: words in driver.console_output(uuid, None), 180)


def test_a_guest_goes_on_from_its_disk_on_another_host(guest_image: Path, tmp_path: Path) -> None:
    with Libvirtd() as libvirtd, Libvirtd() as two:
        dead, next_host = load(tmp_path, libvirtd.uri, host="hv1"), load(tmp_path, two.uri, host="hv2")
        node, guest = next_host.available_nodes()[0], instance(config_drive=True)
        dead.prepare(guest, dead.available_nodes()[0], 1, guest_image)
        dead.power_on(guest)
        boots(dead, guest.uuid, 1)
        with pytest.raises(HypervisorError, match="the guest is not down"):
            next_host.take_over(guest.uuid, 2)
        dead.power_off(guest.uuid)

        # An attempt that fails gives the disk back.
        assert next_host.take_over(guest.uuid, 2)
        next_host.prepare(guest, node, 2, None, with_disks=False)
        next_host.destroy(guest.uuid, RowHost(undone=True))
        dead.start(guest)
        boots(dead, guest.uuid, 2)
        dead.power_off(guest.uuid)

        assert next_host.take_over(guest.uuid, 3)
        next_host.prepare(guest, node, 3, None, with_disks=False)
        next_host.power_on(guest)
        boots(next_host, guest.uuid, 3)
        dead.destroy(guest.uuid, RowHost(host="hv2"))
        assert dead.domains() == ()
        assert next_host.power_state(guest.uuid) is PowerState.RUNNING
        next_host.destroy(guest.uuid, RowHost(host="hv2"))
        assert not (tmp_path / "instances" / guest.uuid).exists()
        dead.close()
        next_host.close()
