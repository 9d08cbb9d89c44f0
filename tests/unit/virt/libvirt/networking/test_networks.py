"""Networks that libvirt keeps for guests, when what is said of the guests is older than what they have."""

from typing import Any
from xml.etree import ElementTree as ET

import libvirt
import pytest

from minova.objects.network.vif import Vif, VifAddress, VifSubnet, network_name
from minova.virt.libvirt.networking.networks import LocalNetworks
from minova.virt.libvirt.networking.repair import Repair
from tests.fakes.libvirt_errors import libvirt_error

SUBNET = VifSubnet(id="s", cidr="10.1.0.0/24", gateway_ip="10.1.0.1")
VIF = Vif(
    port_id="p",
    mac_address="fa:16:3e:00:00:01",
    network_id="n",
    addresses=(VifAddress(subnet_id="s", ip_address="10.1.0.5"),),
    subnets=(SUBNET,),
)


class Network:
    def __init__(self, xml: str) -> None:
        self.root = ET.fromstring(xml)
        self.active = False

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

    def update(self, command: int, section: int, parent: int, xml: str, flags: int) -> None:
        element = self.root.find("ip")
        assert element is not None
        dhcp = element.find("dhcp")
        (ET.SubElement(element, "dhcp") if dhcp is None else dhcp).append(ET.fromstring(xml))

    def macs(self) -> list[str | None]:
        return [host.get("mac") for host in self.root.findall("ip/dhcp/host")]


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
        made = Network(xml)
        self.networks[str(made.root.findtext("uuid"))] = made
        return made


def networks() -> LocalNetworks:
    made = LocalNetworks(lambda: (), metadata=False)
    made.lost = Repair(lambda address: False, lambda bridge: ("tapp",))
    return made


@pytest.mark.parametrize("on_network", [True, False])
def test_the_network_of_an_interface_that_was_detached_meanwhile_does_not_come_back(on_network: bool) -> None:
    """It was removed with its last interface; no later removal of a domain would find it."""
    host = Libvirt(on_network=on_network)
    networks().repair(host, {"one": (VIF,)})
    assert list(host.networks) == (["n"] if on_network else [])


@pytest.mark.parametrize("on_network", [True, False])
def test_the_address_of_an_interface_that_was_detached_meanwhile_is_not_served(on_network: bool) -> None:
    host, kept = Libvirt(on_network=True), networks()
    kept.plug(host, [VIF], "one", "web")
    for entry in host.networks["n"].root.findall("ip/dhcp"):
        entry.clear()
    host.interfaces = host.interfaces if on_network else ""
    kept.serve(host, {"one": (VIF,)})
    assert host.networks["n"].macs() == ([VIF.mac_address] if on_network else [])
