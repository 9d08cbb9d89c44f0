"""Requests to look at the interfaces of a host become as few looks as possible, and none is lost."""

from typing import Any, cast

from minova import errors
from minova.compute.instances.interfaces import Interfaces
from minova.contracts.conductor import ConductorApi
from minova.objects.vif import Vif
from tests.fakes.hypervisor import Hypervisor

VIF = Vif(port_id="p", mac_address="fa:16:3e:00:00:01", network_id="n")


class Conductor:
    """`during` runs while it answers."""

    def __init__(self, during: Any = lambda: None) -> None:
        self.during = during
        self.asked = 0

    def interfaces_of_host(self, ctx: Any, host: str) -> dict[str, tuple[Vif, ...]]:
        self.asked += 1
        self.during()
        return {"one": (VIF,)}


def test_driver_gets_what_the_conductor_says_and_nothing_unasked() -> None:
    conductor, driver = Conductor(), Hypervisor("n")
    interfaces = Interfaces("h", driver, cast(ConductorApi, conductor))
    interfaces.refresh()
    assert conductor.asked == 0
    interfaces.request()
    interfaces.refresh()
    assert (conductor.asked, driver.vifs) == (1, {"one": (VIF,)})


def test_request_during_the_work_is_worked_on_after_it() -> None:
    conductor, driver = Conductor(), Hypervisor("n")
    interfaces = Interfaces("h", driver, cast(ConductorApi, conductor))

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
    interfaces = Interfaces("h", driver, cast(ConductorApi, Conductor(refuse)))
    interfaces.request()
    interfaces.refresh()
    assert driver.calls == []
