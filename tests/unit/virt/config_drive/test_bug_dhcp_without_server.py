"""Guests were told to use DHCP on networks where minova serves none: they took addresses of other servers, or waited for ever."""

import pytest

from minova.objects.network.network import FLAT, LOCAL
from minova.objects.network.vif import NEUTRON, Vif, VifAddress, VifSubnet
from minova.virt.config_drive.network_data import network_data

FIRST = VifSubnet(id="first", cidr="10.0.0.0/24", gateway_ip="10.0.0.1", dns_nameservers=("192.0.2.53",))
SECOND = VifSubnet(id="second", cidr="10.0.1.0/24", gateway_ip="10.0.1.1")
NO_GATEWAY = VifSubnet(id="alone", cidr="10.0.2.0/24")
SIX = VifSubnet(id="six", cidr="fd00::/64", gateway_ip="fd00::1")
OFF = VifSubnet(id="off", cidr="10.0.3.0/24", gateway_ip="10.0.3.1", enable_dhcp=False)
ADDRESSES = {"first": "10.0.0.7", "second": "10.0.1.7", "alone": "10.0.2.7", "six": "fd00::7", "off": "10.0.3.7"}


@pytest.mark.parametrize(
    ("kind", "subnets", "types"),
    [
        (LOCAL, (FIRST,), ["ipv4_dhcp"]),
        (LOCAL, (FIRST, SECOND), ["ipv4_dhcp", "ipv4"]),  # an interface gets one address
        (LOCAL, (NO_GATEWAY, SECOND), ["ipv4", "ipv4_dhcp"]),
        (LOCAL, (OFF,), ["ipv4"]),
        (LOCAL, (FIRST, SIX), ["ipv4_dhcp", "ipv6"]),
        (FLAT, (FIRST, SIX), ["ipv4", "ipv6"]),
        (NEUTRON, (NO_GATEWAY, SIX, OFF), ["ipv4_dhcp", "ipv6_dhcp", "ipv4"]),  # Neutron serves by its own word
    ],
)
def test_dhcp_is_named_only_where_a_server_answers(kind: str, subnets: tuple[VifSubnet, ...], types: list[str]) -> None:
    addresses = tuple(VifAddress(subnet_id=each.id, ip_address=ADDRESSES[each.id]) for each in subnets)
    vif = Vif(port_id="p", mac_address="m", network_id="n", network_type=kind, subnets=subnets, addresses=addresses)
    assert [network["type"] for network in network_data([vif])["networks"]] == types


def test_an_address_without_dhcp_has_its_route_and_resolvers() -> None:
    address = VifAddress(subnet_id="first", ip_address="10.0.0.7")
    vif = Vif(port_id="p", mac_address="m", network_id="n", network_type=FLAT, subnets=(FIRST,), addresses=(address,))
    (network,) = network_data([vif])["networks"]
    assert (network["ip_address"], network["netmask"]) == ("10.0.0.7", "255.255.255.0")
    assert network["routes"] == [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "10.0.0.1"}]
    assert network["services"] == [{"type": "dns", "address": "192.0.2.53"}]
