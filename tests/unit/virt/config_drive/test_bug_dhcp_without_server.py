"""Guests were told to use DHCP on networks where minova serves none: they took addresses of other servers, or waited for ever."""

import msgspec
import pytest

from minova.objects.network.network import FLAT, LOCAL, VLAN, HostRoute
from minova.objects.network.vif import NEUTRON, Vif, VifAddress, VifSubnet
from minova.virt.config_drive.network_data import network_data

FIRST = VifSubnet(id="first", cidr="10.0.0.0/24", gateway_ip="10.0.0.1", dns_nameservers=("192.0.2.53",))
SECOND = VifSubnet(id="second", cidr="10.0.1.0/24", gateway_ip="10.0.1.1")
NO_GATEWAY = VifSubnet(id="alone", cidr="10.0.2.0/24")
SIX = VifSubnet(id="six", cidr="fd00::/64", gateway_ip="fd00::1")
AUTOMATIC = VifSubnet(id="auto", cidr="fd01::/64", gateway_ip="fd01::1", ipv6_mode="slaac")
STATELESS = VifSubnet(id="less", cidr="fd02::/64", ipv6_mode="dhcpv6-stateless")
GIVEN = VifSubnet(id="given", cidr="fd03::/64", ipv6_mode="dhcpv6-stateful")
WIDE = VifSubnet(id="wide", cidr="fd04::/56", ipv6_mode="dhcpv6-stateful")  # of an earlier release: no advertisements
OFF = VifSubnet(id="off", cidr="10.0.3.0/24", gateway_ip="10.0.3.1", enable_dhcp=False)
ADDRESSES = {"first": "10.0.0.7", "second": "10.0.1.7", "alone": "10.0.2.7", "six": "fd00::7", "off": "10.0.3.7"}
ADDRESSES |= {"auto": "fd01::7", "less": "fd02::7", "given": "fd03::7", "wide": "fd04::7"}


@pytest.mark.parametrize(
    ("kind", "subnets", "types"),
    [
        (LOCAL, (FIRST,), ["ipv4_dhcp"]),
        (LOCAL, (FIRST, SECOND), ["ipv4_dhcp", "ipv4"]),  # an interface gets one address
        (LOCAL, (NO_GATEWAY, SECOND), ["ipv4_dhcp", "ipv4"]),
        (LOCAL, (OFF,), ["ipv4"]),
        (LOCAL, (FIRST, SIX), ["ipv4_dhcp", "ipv6"]),
        (FLAT, (FIRST, SIX), ["ipv4_dhcp", "ipv6"]),
        (LOCAL, (OFF, AUTOMATIC, STATELESS), ["ipv4", "ipv6_slaac", "ipv6_dhcpv6-stateless"]),
        (FLAT, (OFF, AUTOMATIC, STATELESS), ["ipv4", "ipv6", "ipv6_dhcpv6-stateless"]),  # its router is outside
        (VLAN, (GIVEN, WIDE), ["ipv6_dhcpv6-stateful", "ipv6"]),
        (NEUTRON, (NO_GATEWAY, SIX, OFF), ["ipv4_dhcp", "ipv6_dhcp", "ipv4"]),  # Neutron serves by its own word
    ],
)
def test_dhcp_is_named_only_where_a_server_answers(kind: str, subnets: tuple[VifSubnet, ...], types: list[str]) -> None:
    addresses = tuple(VifAddress(subnet_id=each.id, ip_address=ADDRESSES[each.id]) for each in subnets)
    vif = Vif(port_id="p", mac_address="m", network_id="n", network_type=kind, subnets=subnets, addresses=addresses)
    assert [network["type"] for network in network_data([vif])["networks"]] == types


def test_an_address_without_dhcp_has_its_route_and_resolvers() -> None:
    routes = (HostRoute(destination="192.0.2.0/24", nexthop="10.0.3.9"),)
    subnet = msgspec.structs.replace(OFF, dns_nameservers=("192.0.2.53",), host_routes=routes)
    address = VifAddress(subnet_id="off", ip_address="10.0.3.7")
    vif = Vif(port_id="p", mac_address="m", network_id="n", network_type=FLAT, subnets=(subnet,), addresses=(address,))
    (network,) = network_data([vif])["networks"]
    assert (network["ip_address"], network["netmask"]) == ("10.0.3.7", "255.255.255.0")
    assert network["routes"] == [
        {"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "10.0.3.1"},
        {"network": "192.0.2.0", "netmask": "255.255.255.0", "gateway": "10.0.3.9"},
    ]
    assert network["services"] == [{"type": "dns", "address": "192.0.2.53"}]


def test_route_to_a_router_outside_comes_with_a_static_address() -> None:
    """Only that router could advertise itself, and cloud-init's netplan drops routes of advertised addresses."""
    address = VifAddress(subnet_id="auto", ip_address="fd01::7")
    vif = Vif(
        port_id="p", mac_address="m", network_id="n", network_type=FLAT, subnets=(AUTOMATIC,), addresses=(address,)
    )
    (network,) = network_data([vif])["networks"]
    assert (network["type"], network["ip_address"]) == ("ipv6", "fd01::7")
    assert network["routes"] == [{"network": "::", "netmask": "::", "gateway": "fd01::1"}]
