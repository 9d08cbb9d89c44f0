"""Networks that libvirt keeps for guests, when what is said of the guests is older than what they have."""

from collections.abc import Callable, Collection
from typing import Any
from xml.etree import ElementTree as ET

import libvirt
import msgspec
import pytest

from minova.errors import HardwareNotOffered, HypervisorError
from minova.objects.network.dhcp_options import DhcpOption
from minova.objects.network.vif import Vif, VifAddress, VifSubnet, bridge_name, network_name
from minova.virt.libvirt.networking.networks import LocalNetworks
from minova.virt.libvirt.networking.repair import Repair
from minova.virt.namespaces.network import network_of
from tests.fakes.host_networks import FakeHostNetworks
from tests.fakes.libvirt_errors import libvirt_error

SUBNET = VifSubnet(id="s", cidr="10.1.0.0/24", gateway_ip="10.1.0.1")
VIF = Vif(
    port_id="b",
    mac_address="fa:16:3e:00:00:01",
    network_id="n",
    addresses=(VifAddress(subnet_id="s", ip_address="10.1.0.5"),),
    subnets=(SUBNET,),
)


class Network:
    def __init__(self, xml: str) -> None:
        self.root = ET.fromstring(xml)
        self.active = False
        self.gone: Callable[[], Any] = lambda: None

    def name(self) -> str:
        return str(self.root.findtext("name"))

    def isActive(self) -> bool:  # noqa: N802
        return self.active

    def setAutostart(self, wanted: int) -> None:  # noqa: N802
        """It starts with its host."""

    def create(self) -> None:
        self.active = True

    def XMLDesc(self) -> str:  # noqa: N802
        return ET.tostring(self.root, encoding="unicode")

    def destroy(self) -> None:
        self.active = False

    def undefine(self) -> None:
        self.gone()


class Libvirt:
    """libvirt with one domain, which may be on the network."""

    def __init__(self, *, on_network: bool) -> None:
        source = f'<source network="{network_name("n")}"/><mac address="{VIF.mac_address}"/>'
        self.interfaces = f'<interface type="network">{source}</interface>' if on_network else ""
        self.networks: dict[str, Network] = {}

    def lookupByUUIDString(self, uuid: str) -> Any:  # noqa: N802
        return self

    def XMLDesc(self, flags: int = 0) -> str:  # noqa: N802
        return f"<domain><devices>{self.interfaces}</devices></domain>"

    def networkLookupByUUIDString(self, uuid: str) -> Network:  # noqa: N802
        if uuid in self.networks:
            return self.networks[uuid]
        raise libvirt_error("no network", libvirt.VIR_ERR_NO_NETWORK)

    networkLookupByName = networkLookupByUUIDString  # noqa: N815

    def networkDefineXML(self, xml: str) -> Network:  # noqa: N802
        network = Network(xml)
        uuid = str(network.root.findtext("uuid"))
        self.networks[uuid] = network
        network.gone = lambda: self.networks.pop(uuid)
        return network

    def listAllNetworks(self) -> list[Network]:  # noqa: N802
        return list(self.networks.values())

    def listAllDomains(self, flags: int = 0) -> list[Any]:  # noqa: N802
        return [self]

    def isActive(self) -> bool:  # noqa: N802
        return False

    def UUIDString(self) -> str:  # noqa: N802
        return "one"


def networks(host: FakeHostNetworks, bridges: Collection[str] = ()) -> LocalNetworks:
    local_networks = LocalNetworks(host, lambda: (), interfaces=lambda: bridges)
    local_networks.lost = Repair(lambda bridge: ("tapb",))
    return local_networks


@pytest.mark.parametrize("on_network", [True, False])
def test_the_network_of_an_interface_that_was_detached_meanwhile_does_not_come_back(on_network: bool) -> None:
    """It was removed with its last interface; no later removal of a domain would find it."""
    host, namespaces = Libvirt(on_network=on_network), FakeHostNetworks()
    networks(namespaces).repair(host, {"one": (VIF,)})
    assert list(host.networks) == list(namespaces.made) == (["n"] if on_network else [])


@pytest.mark.parametrize("on_network", [True, False])
def test_the_address_of_an_interface_that_was_detached_meanwhile_is_not_served(on_network: bool) -> None:
    host, namespaces = Libvirt(on_network=True), FakeHostNetworks()
    kept = networks(namespaces)
    kept.plug(host, [VIF], "one", "web")
    namespaces.forget("n", {VIF.mac_address})
    host.interfaces = host.interfaces if on_network else ""
    kept.serve(host, {"one": (VIF,)})
    assert [each.mac for each in namespaces.made["n"].hosts] == ([VIF.mac_address] if on_network else [])


@pytest.mark.parametrize("hostname", ["a_b", "-", "a..b", "web.", "x" * 64, ".".join(["x" * 60] * 5)])
def test_bug_a_hostname_that_no_resolver_has_stops_its_host(hostname: str) -> None:
    """Microversion 2.94 allows it. Its guest gets its address without the name."""
    host, namespaces = Libvirt(on_network=True), FakeHostNetworks()
    kept = networks(namespaces)
    kept.plug(host, [VIF], "one", hostname)
    named = msgspec.structs.replace(VIF, hostname=hostname)
    kept.serve(host, {"one": (named,)})
    assert [(each.address, each.name) for each in namespaces.made["n"].hosts] == [("10.1.0.5", "")]


def test_bug_a_dhcp_option_that_no_server_gives_stops_its_host() -> None:
    """Earlier releases allowed printable characters of all alphabets."""
    host, namespaces = Libvirt(on_network=True), FakeHostNetworks()
    options = tuple(DhcpOption(opt_name=name, opt_value=value) for name, value in (("150", "é"), ("66", "a")))
    networks(namespaces).plug(host, [msgspec.structs.replace(VIF, extra_dhcp_opts=options)], "one", "web")
    (served,) = namespaces.made["n"].hosts
    assert [(each.name, each.value) for each in served.options] == [("66", "a")]


def test_bug_one_interface_that_cannot_be_served_stops_the_changes_of_others(caplog: pytest.LogCaptureFixture) -> None:
    host, namespaces = Libvirt(on_network=True), FakeHostNetworks()
    kept = networks(namespaces)
    kept.plug(host, [VIF], "one", "web")
    invalid = msgspec.structs.replace(VIF, mac_address="FA")
    host.interfaces += (
        f'<interface type="network"><source network="{network_name("n")}"/><mac address="FA"/></interface>'
    )
    moved = msgspec.structs.replace(VIF, addresses=(VifAddress(subnet_id="s", ip_address="10.1.0.6"),))
    kept.serve(host, {"one": (invalid, moved)})
    assert [each.address for each in namespaces.made["n"].hosts] == ["10.1.0.6"]
    assert "cannot be changed yet" in caplog.text
    with pytest.raises(HardwareNotOffered, match="no MAC address"):
        kept.plug(host, [invalid], "one", "web")


def test_changed_subnets_reach_the_namespace_with_the_change() -> None:
    host, namespaces = Libvirt(on_network=True), FakeHostNetworks()
    kept = networks(namespaces)
    more = (SUBNET, VifSubnet(id="t", cidr="10.2.0.0/24", gateway_ip="10.2.0.1"))
    kept.plug(host, [msgspec.structs.replace(VIF, subnets=more)], "one", "")
    assert len(namespaces.made["n"].network.subnets) == 2
    kept.serve(host, {"one": (VIF,)})
    assert [each.cidr for each in namespaces.made["n"].network.subnets] == ["10.1.0.0/24"]
    # What has not changed is not made again.
    before = len(namespaces.ensured)
    kept.serve(host, {"one": (VIF,)})
    assert len(namespaces.ensured) == before


def test_bug_a_guest_on_a_bridge_cannot_be_removed_without_the_network_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its network may have no DHCP at all, so that its host needs no helper."""
    namespaces = FakeHostNetworks()
    kept = LocalNetworks(namespaces, lambda: (), mappings={"physnet1": "br1"}, interfaces=lambda: ["br1"])
    network = msgspec.structs.replace(network_of(VIF, metadata=True), over="br1")
    namespaces.ensure(network)
    removed: list[str] = []

    def no_answer() -> Any:
        raise HypervisorError("minova-network-helper does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(namespaces, "records", no_answer)
        kept.unplug(Libvirt(on_network=False), "one", [("br1", VIF.mac_address)], lambda: removed.append("domain"))
    assert removed == ["domain"]
    kept.repair(Libvirt(on_network=False), {})
    assert namespaces.made == {}


def test_what_a_crash_has_left_of_a_network_is_removed() -> None:
    host, namespaces = Libvirt(on_network=False), FakeHostNetworks()
    namespaces.ensure(network_of(VIF, metadata=True))
    networks(namespaces).repair(host, {})
    assert namespaces.made == {}


def test_bug_a_network_of_another_libvirtd_on_the_machine_loses_its_namespace() -> None:
    host, namespaces = Libvirt(on_network=False), FakeHostNetworks()
    namespaces.ensure(network_of(VIF, metadata=True))
    networks(namespaces, bridges=("lo", bridge_name("n"))).repair(host, {})
    assert list(namespaces.made) == ["n"]


def test_a_network_of_an_earlier_release_moves_over_with_the_mac_address_of_its_gateway() -> None:
    host, namespaces = Libvirt(on_network=True), FakeHostNetworks()
    former = host.networkDefineXML(
        f'<network><name>{network_name("n")}</name><uuid>n</uuid><forward mode="nat"/>'
        '<mac address="52:54:00:00:00:07"/><ip address="10.1.0.1" prefix="24"/></network>'
    )
    former.create()
    kept = networks(namespaces)
    for _ in range(2):
        kept.repair(host, {"one": (VIF,)})
        assert host.networks["n"].root.find("ip") is None
        assert host.networks["n"].active
        assert namespaces.made["n"].mac == "52:54:00:00:00:07"
    assert namespaces.ensured == ["n", "n"]
