"""Two hypervisors on one folder of disks: what the first one left is removed while the guest runs on the second one."""

from pathlib import Path

import msgspec
import pytest

from minova.errors import DisksOfAnotherHost, HypervisorError
from minova.objects.servers.states import PowerState
from minova.virt.driver.domains import RowHost
from tests.integration.virt.test_guest import instance, load
from tests.servers.libvirtd import Libvirtd


def test_the_clean_up_of_one_host_leaves_the_guest_of_the_other(guest_image: Path, tmp_path: Path) -> None:
    with Libvirtd() as libvirtd, Libvirtd() as two:
        first, second = load(tmp_path, libvirtd.uri, host="hv1"), load(tmp_path, two.uri, host="hv2")
        guest = instance()
        for number, driver in enumerate((first, second), start=1):
            driver.prepare(guest, driver.available_nodes()[0], number, guest_image)
        with pytest.raises(DisksOfAnotherHost, match="now of host hv2"):
            first.power_on(guest)
        second.power_on(guest)
        first.destroy(guest.uuid, RowHost(host="hv2"))
        assert first.domains() == ()
        assert (tmp_path / "instances" / guest.uuid / "disk").exists()
        assert second.power_state(guest.uuid) is PowerState.RUNNING
        second.destroy(guest.uuid, RowHost(host="hv2"))
        assert not (tmp_path / "instances" / guest.uuid).exists()
        first.close()
        second.close()


def test_a_hard_reboot_takes_the_disks_that_a_broken_migration_has_left(guest_image: Path, tmp_path: Path) -> None:
    with Libvirtd() as libvirtd, Libvirtd() as two:
        first, second = load(tmp_path, libvirtd.uri, host="hv1"), load(tmp_path, two.uri, host="hv2")
        guest = instance()
        first.prepare(guest, first.available_nodes()[0], 1, guest_image)
        first.power_on(guest)
        moved = msgspec.structs.replace(guest, host="hv2", node=second.available_nodes()[0], attempt=2)
        with pytest.raises(HypervisorError, match="the guest is not down"):
            second.hard_reboot(moved)
        first.power_off(guest.uuid)
        for _ in range(2):
            assert second.hard_reboot(moved) is PowerState.RUNNING
        with pytest.raises(DisksOfAnotherHost, match="now of host hv2"):
            first.power_on(guest)
        second.destroy(guest.uuid, RowHost(host="hv2"))
        first.destroy(guest.uuid, RowHost(host=None))
        first.close()
        second.close()
