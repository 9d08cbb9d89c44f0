"""Interfaces of guests that do not do their part, and of domains that were left half done."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree as ET

import libvirt
import pytest

from minova import errors
from minova.objects.network.vif import Vif, filter_name
from minova.virt.libvirt.networking.filters import PortFilters
from minova.virt.libvirt.networking.hotplug import Hotplug, interfaces_of_ports
from minova.virt.libvirt.networking.networks import LocalNetworks
from tests.fakes.host_networks import FakeHostNetworks
from tests.fakes.libvirt_errors import libvirt_error

VIF = Vif(port_id="p", mac_address="fa:16:3e:00:00:01", network_id="n", network_type="flat", physical_network="dc1")
XML = (
    '<interface type="bridge"><mac address="fa:16:3e:00:00:01"/><source bridge="br"/>'
    f'<filterref filter="{filter_name("p")}"/></interface>'
)
OTHER = XML.replace("00:01", "00:02").replace("port-p", "port-q")
LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE


class Libvirt:
    """libvirt with one domain, whose guest lets go of an interface when it is asked `lets_go` times. None: never."""

    def __init__(self, *live: str, defined: tuple[str, ...] = (), lets_go: int | None = 1, active: bool = True) -> None:
        self.live, self.defined = list(live), list(defined)
        self.lets_go = lets_go
        self.active = active
        self.asked = 0
        self.now = 0.0
        self.filters: set[str] = {filter_name("p")}
        self.refuses_live = False

    # -- of a connection

    def lookupByUUIDString(self, uuid: str) -> "Libvirt":  # noqa: N802
        return self

    def isAlive(self) -> bool:  # noqa: N802
        return True

    def nwfilterLookupByName(self, name: str) -> Any:  # noqa: N802
        self.filters.discard(name)
        return self

    def nwfilterDefineXML(self, xml: str) -> None:  # noqa: N802
        self.filters.add(ET.fromstring(xml).get("name", ""))

    def listAllNWFilters(self) -> list[Any]:  # noqa: N802
        return []

    def networkLookupByName(self, name: str) -> Any:  # noqa: N802
        raise libvirt_error("no network", libvirt.VIR_ERR_NO_NETWORK)

    def undefine(self) -> None:
        """Of a filter."""

    # -- of a domain

    def connect(self) -> "Libvirt":
        return self

    def isActive(self) -> bool:  # noqa: N802
        return self.active

    def UUIDString(self) -> str:  # noqa: N802
        return "one"

    def XMLDesc(self, flags: int = 0) -> str:  # noqa: N802
        return f"<domain><devices>{''.join(self.defined if flags else self.live)}</devices></domain>"

    def attachDeviceFlags(self, xml: str, flags: int) -> None:  # noqa: N802
        if flags == LIVE and self.refuses_live:
            raise libvirt_error("no more available PCI slots")
        (self.live if flags == LIVE else self.defined).append(xml)

    def detachDeviceFlags(self, xml: str, flags: int) -> None:  # noqa: N802
        mac = ET.fromstring(xml).find("mac")
        assert mac is not None
        if flags == LIVE:
            self.asked += 1
            if self.lets_go is not None and self.asked >= self.lets_go:
                self.live = [
                    interface_xml for interface_xml in self.live if str(mac.get("address")) not in interface_xml
                ]
        else:
            self.defined = [
                interface_xml for interface_xml in self.defined if str(mac.get("address")) not in interface_xml
            ]

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def hotplug(one: Libvirt) -> Hotplug:
    @contextmanager
    def connection(purpose: str, uuid: str) -> Iterator[Any]:
        yield one

    filters = PortFilters(lambda numbers: None)
    return Hotplug(
        connection,
        LocalNetworks(FakeHostNetworks()),
        filters,
        attempts=3,
        timeout=5.0,
        clock=lambda: one.now,
        sleep=one.sleep,
    )


def test_a_guest_is_asked_until_it_lets_go() -> None:
    new_libvirt = Libvirt(XML, OTHER, defined=(XML, OTHER), lets_go=3)
    hotplug(new_libvirt).detach("one", VIF, lambda: None)
    assert (new_libvirt.live, new_libvirt.defined, new_libvirt.asked, new_libvirt.filters) == (
        [OTHER],
        [OTHER],
        3,
        set(),
    )
    assert 10.0 <= new_libvirt.now < 11.0


def test_a_guest_that_never_lets_go_keeps_the_interface() -> None:
    new_libvirt = Libvirt(XML, defined=(XML,), lets_go=None)
    with pytest.raises(
        errors.InterfaceDetachFailed, match="has not let go of the interface fa:16:3e:00:00:01, asked 3"
    ):
        hotplug(new_libvirt).detach("one", VIF, lambda: None)
    assert (new_libvirt.live, new_libvirt.defined, new_libvirt.asked, new_libvirt.filters) == (
        [XML],
        [XML],
        3,
        {filter_name("p")},
    )


def test_a_wait_ends_when_it_is_not_wanted_any_more() -> None:
    new_libvirt = Libvirt(XML, defined=(XML,), lets_go=None)

    def check() -> None:
        if new_libvirt.now > 1.0:
            raise errors.StaleAttempt("a deletion has come")

    with pytest.raises(errors.StaleAttempt):
        hotplug(new_libvirt).detach("one", VIF, check)
    assert (new_libvirt.asked, new_libvirt.now < 2.0, new_libvirt.defined) == (1, True, [XML])


@pytest.mark.parametrize("active", [True, False])
def test_what_was_cut_off_is_ended(active: bool) -> None:
    """The guest has let go of it, or is off; the definition names it still."""
    new_libvirt = Libvirt(defined=(XML, OTHER), active=active)
    for _ in range(2):
        hotplug(new_libvirt).detach("one", VIF, lambda: None)
        assert (new_libvirt.defined, new_libvirt.asked, new_libvirt.filters) == ([OTHER], 0, set())


def test_an_attachment_is_done_once() -> None:
    new_libvirt = Libvirt(OTHER, defined=(OTHER,))
    for _ in range(2):
        hotplug(new_libvirt).attach(new_libvirt, VIF, XML, "web")
        assert (new_libvirt.live, new_libvirt.defined) == ([OTHER, XML], [OTHER, XML])
    # It was cut off between the definition and the guest.
    new_libvirt.live.remove(XML)
    hotplug(new_libvirt).attach(new_libvirt, VIF, XML, "web")
    assert new_libvirt.live == [OTHER, XML]
    assert [vif.port_id for vif in interfaces_of_ports(new_libvirt)] == ["q", "p"]


def test_an_attachment_that_the_guest_cannot_take_leaves_nothing() -> None:
    new_libvirt = Libvirt(OTHER, defined=(OTHER,))
    new_libvirt.refuses_live = True
    with pytest.raises(errors.InterfaceAttachFailed, match="no more available PCI slots"):
        hotplug(new_libvirt).attach(new_libvirt, VIF, XML, "web")
    assert (new_libvirt.live, new_libvirt.defined, new_libvirt.filters) == ([OTHER], [OTHER], set())


def test_a_guest_that_is_off_has_it_at_its_next_start() -> None:
    new_libvirt = Libvirt(defined=(OTHER,), active=False)
    hotplug(new_libvirt).attach(new_libvirt, VIF, XML, "web")
    assert (new_libvirt.live, new_libvirt.defined) == ([], [OTHER, XML])


def test_an_attachment_that_fails_leaves_a_guest_that_has_the_interface_as_it_is() -> None:
    """It was asked for twice, and the second time libvirt fails. The guest must not count as one without it."""
    new_libvirt = Libvirt(XML, defined=(XML,), lets_go=None)
    new_libvirt.nwfilterDefineXML = lambda xml: _fail("no filters now")  # type: ignore[method-assign]
    with pytest.raises(libvirt.libvirtError):
        hotplug(new_libvirt).attach(new_libvirt, VIF, XML, "web")
    assert (new_libvirt.live, new_libvirt.defined, new_libvirt.asked, new_libvirt.filters) == (
        [XML],
        [XML],
        0,
        {filter_name("p")},
    )


def test_a_guest_that_has_the_interface_again_is_not_taken_for_one_without_it() -> None:
    """It was off when it was asked, and is started before what is left is removed."""
    new_libvirt = Libvirt(XML, defined=(XML,), lets_go=None, active=False)
    answers = iter([False, True, True, True])
    new_libvirt.isActive = lambda: next(answers)  # type: ignore[method-assign]
    with pytest.raises(errors.InterfaceDetachFailed):
        hotplug(new_libvirt).detach("one", VIF, lambda: None)
    assert (new_libvirt.live, new_libvirt.defined, new_libvirt.filters) == ([XML], [XML], {filter_name("p")})


@pytest.mark.parametrize(("live", "defined"), [((XML,), ()), ((), (XML,)), ((XML, OTHER), (XML,))])
def test_what_is_half_done_is_seen(live: tuple[str, ...], defined: tuple[str, ...]) -> None:
    new_libvirt = Libvirt(*live, defined=defined)
    new_libvirt.listAllDomains = lambda: [new_libvirt]  # type: ignore[attr-defined]
    new_libvirt.name = lambda: "one"  # type: ignore[attr-defined]
    assert hotplug(new_libvirt).refresh(new_libvirt, {"one": (VIF,)}, lambda uuid: True) == ("one",)
    assert VIF.mac_address in {vif.mac_address for vif in interfaces_of_ports(new_libvirt)}


def _fail(text: str) -> None:
    raise libvirt_error(text)
