"""Requests to look at the interfaces of a host become as few looks as possible, and none is lost."""

from typing import Any, cast

import msgspec
import pytest

from minova import errors
from minova.compute.instances.domains import Domains
from minova.compute.instances.interfaces import Interfaces
from minova.contracts.conductor import ConductorApi
from minova.objects.catalogue.flavor import Flavor
from minova.objects.network.vif import GroupMembers, Vif
from minova.objects.servers.build import HostInstances
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import TaskState, VmState
from minova.virt.driver import ComputeDriver
from minova.virt.fake import FakeDriver
from tests.cluster import configure
from tests.fakes.hypervisor import Hypervisor

VIF = Vif(port_id="p", mac_address="fa:16:3e:00:00:01", network_id="n")
OTHER = Vif(port_id="q", mac_address="fa:16:3e:00:00:02", network_id="n")


class Conductor:
    """`during` runs while it answers."""

    def __init__(self, during: Any = lambda: None) -> None:
        self.during = during
        self.asked = 0

    def interfaces_of_host(self, ctx: Any, host: str) -> dict[str, tuple[Vif, ...]]:
        self.asked += 1
        self.during()
        return {"one": (VIF,)}


def made(driver: ComputeDriver, conductor: Any, *, unreported: bool = False) -> Interfaces:
    return Interfaces("h", driver, cast(ConductorApi, conductor), Domains(driver), lambda uuid: unreported)


class Rows(Conductor):
    """Has one instance. What it says first may be older than what it says then."""

    def __init__(self, instance: Instance, *earlier: Vif) -> None:
        super().__init__()
        self.instance = instance
        self.earlier = earlier
        self.gone: list[tuple[str, str, str]] = []

    def interfaces_of_host(self, ctx: Any, host: str) -> dict[str, tuple[Vif, ...]]:
        return {self.instance.uuid: self.earlier or self.instance.network_info}

    def interface_detached(self, ctx: Any, instance_uuid: str, mac_address: str, host: str) -> None:
        self.gone.append((instance_uuid, mac_address, host))

    def instances_of_host(self, ctx: Any, host: str) -> HostInstances:
        return HostInstances(instances=(self.instance,))


FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=512, root_gb=1)
INSTANCE = Instance(uuid="one", display_name="one", flavor=FLAVOR, vm_state=VmState.ACTIVE, host="h", node="n")


def guest(tmp_path: Any, *vifs: Vif) -> FakeDriver:
    """It has these interfaces."""
    driver = FakeDriver(configure(tmp_path, host="h"))
    driver.prepare(msgspec.structs.replace(INSTANCE, network_info=vifs), "n", 1, None)
    return driver


def refreshed(driver: FakeDriver, conductor: Rows, *, unreported: bool = False) -> list[str]:
    """The MAC addresses of the guest afterwards."""
    interfaces = made(driver, conductor, unreported=unreported)
    interfaces.request()
    interfaces.refresh()
    return [vif.mac_address for vif in driver.interfaces("one")]


@pytest.mark.parametrize("has", [(), (VIF,), (VIF, OTHER), (OTHER,)])
@pytest.mark.parametrize("wanted", [(), (VIF,), (OTHER, VIF)])
def test_a_guest_gets_what_its_instance_has(tmp_path: Any, has: tuple[Vif, ...], wanted: tuple[Vif, ...]) -> None:
    conductor = Rows(msgspec.structs.replace(INSTANCE, network_info=wanted))
    assert sorted(refreshed(guest(tmp_path, *has), conductor)) == sorted(vif.mac_address for vif in wanted)


def test_what_is_decided_is_what_the_conductor_says_under_the_lock(tmp_path: Any) -> None:
    """A detachment has ended since the first answer: the interface does not come back."""
    conductor = Rows(INSTANCE, VIF)
    assert refreshed(guest(tmp_path), conductor) == []


@pytest.mark.parametrize("has", [(VIF,), ()])
def test_the_interface_of_a_port_that_is_pending_delete_is_detached_and_that_is_said_until_it_is_heard(
    tmp_path: Any, has: tuple[Vif, ...]
) -> None:
    driver = guest(tmp_path, *has)
    conductor = Rows(INSTANCE, msgspec.structs.replace(VIF, pending_delete=True))
    for times in (1, 2):
        assert refreshed(driver, conductor) == []
        assert conductor.gone == [("one", VIF.mac_address, "h")] * times


def test_a_domain_that_is_lost_has_no_interface_of_a_port_that_is_pending_delete(tmp_path: Any) -> None:
    driver = guest(tmp_path)
    driver.destroy("one")
    conductor = Rows(INSTANCE, msgspec.structs.replace(VIF, pending_delete=True))
    interfaces = made(driver, conductor)
    interfaces.request()
    interfaces.refresh()
    assert conductor.gone == [("one", VIF.mac_address, "h")]


def test_a_guest_that_does_not_let_go_of_a_port_that_is_pending_delete_is_asked_again(tmp_path: Any) -> None:
    driver = guest(tmp_path, VIF, OTHER)
    driver.fail("detach_interface", [errors.InterfaceDetachFailed("it has not let go of it")])
    instance = msgspec.structs.replace(INSTANCE, network_info=(OTHER,))
    conductor = Rows(instance, msgspec.structs.replace(VIF, pending_delete=True), OTHER)
    assert len(refreshed(driver, conductor)) == 2
    assert conductor.gone == []
    assert refreshed(driver, conductor) == [OTHER.mac_address]
    assert conductor.gone == [("one", VIF.mac_address, "h")]


def test_what_no_conductor_has_heard_of_is_waited_for(tmp_path: Any) -> None:
    conductor = Rows(msgspec.structs.replace(INSTANCE, network_info=(VIF,)))
    assert refreshed(guest(tmp_path), conductor, unreported=True) == []


@pytest.mark.parametrize(
    ("vm_state", "task_state"),
    [(VmState.SUSPENDED, None), (VmState.ACTIVE, TaskState.DELETING), (VmState.RESCUED, None)],
)
def test_guests_in_other_states_are_left_as_they_are(
    tmp_path: Any, vm_state: VmState, task_state: TaskState | None
) -> None:
    instance = msgspec.structs.replace(INSTANCE, network_info=(VIF,), vm_state=vm_state, task_state=task_state)
    assert refreshed(guest(tmp_path), Rows(instance)) == []


def test_a_guest_that_is_worked_on_is_left_to_the_next_time(tmp_path: Any) -> None:
    driver = guest(tmp_path)
    domains = Domains(driver)
    conductor = Rows(msgspec.structs.replace(INSTANCE, network_info=(VIF,)))
    interfaces = Interfaces("h", driver, cast(ConductorApi, conductor), domains, lambda uuid: False)
    with domains.locked("one"):
        interfaces.request()
        interfaces.refresh()
    assert driver.interfaces("one") == ()
    interfaces.request()
    interfaces.refresh()
    assert [vif.mac_address for vif in driver.interfaces("one")] == [VIF.mac_address]


def test_a_guest_that_cannot_be_changed_keeps_none_from_it(tmp_path: Any) -> None:
    driver = guest(tmp_path)
    driver.fail("attach_interface", [errors.HypervisorUnavailable("libvirt is away")])
    conductor = Rows(msgspec.structs.replace(INSTANCE, network_info=(VIF,)))
    assert refreshed(driver, conductor) == []
    assert refreshed(driver, conductor) == [VIF.mac_address]


def test_driver_gets_what_the_conductor_says_and_nothing_unasked() -> None:
    conductor, driver = Conductor(), Hypervisor("n")
    interfaces = made(driver, conductor)
    interfaces.refresh()
    assert conductor.asked == 0
    interfaces.request()
    interfaces.refresh()
    assert (conductor.asked, driver.vifs) == (1, {"one": (VIF,)})


def test_request_during_the_work_is_worked_on_after_it() -> None:
    conductor, driver = Conductor(), Hypervisor("n")
    interfaces = made(driver, conductor)

    def again() -> None:
        conductor.during = lambda: None
        interfaces.request()
        interfaces.refresh()  # another thread's, while this one works

    conductor.during = again
    interfaces.request()
    interfaces.refresh()
    assert conductor.asked == 2


def test_older_conductor_knows_no_interfaces() -> None:
    def refuse() -> None:
        raise errors.PeerTooOld("1.6")

    driver = Hypervisor("n")
    interfaces = made(driver, Conductor(refuse))
    interfaces.request()
    interfaces.refresh()
    assert driver.calls == []


def of_group(revision: int) -> GroupMembers:
    return GroupMembers(group_id="g", revision=revision)


def test_members_go_to_the_driver_once_the_newest_alone_and_nothing_is_asked() -> None:
    driver, conductor = Hypervisor("n"), Conductor()
    interfaces = made(driver, conductor)
    interfaces.request()
    interfaces.refresh()
    for revision in (1, 3, 2):
        interfaces.learn([of_group(revision)])
    interfaces.refresh()
    interfaces.refresh()
    assert (driver.members, conductor.asked) == ([of_group(3)], 1)


def test_a_driver_that_knows_no_interfaces_yet_is_told_of_all_of_them_with_the_first_members() -> None:
    driver, conductor = Hypervisor("n"), Conductor()
    interfaces = made(driver, conductor)
    for _ in range(2):
        interfaces.learn([of_group(1)])
        interfaces.refresh()
    assert driver.calls == ["refresh_members", "refresh_interfaces", "refresh_members"]


def test_members_that_the_driver_refuses_do_not_hold_up_the_rest() -> None:
    driver, conductor = Hypervisor("n"), Conductor()
    interfaces = made(driver, conductor)

    def refuse(operation: str) -> None:
        if operation == "refresh_members":
            raise errors.HypervisorUnavailable("libvirt is away")

    driver.on_call = refuse
    interfaces.learn([of_group(1)])
    interfaces.request()
    interfaces.refresh()
    assert driver.vifs == {"one": (VIF,)}
