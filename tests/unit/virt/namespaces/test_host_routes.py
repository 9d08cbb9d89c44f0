"""Which addresses a host has routes to."""

import ipaddress

import pytest

from minova.virt.namespaces.host_routes import (
    KernelRoute,
    addresses_in,
    overlapping,
    routes_in,
    routes_of_host,
)

TABLE = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
mn7d1f0c520000\t00014D0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
mnt\t00004D0A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
"""


TRIE = """\
     |-- 10.77.1.1
        /32 host LOCAL
     |-- 192.0.2.2
        /32 host LOCAL
     |-- 192.0.2.255
        /32 link BROADCAST
"""


def test_routes_are_read_without_the_default() -> None:
    assert list(routes_in(TABLE.splitlines())) == [
        KernelRoute(destination="192.0.2.0/24", interface="eth0"),
        KernelRoute(destination="10.77.1.0/24", interface="mn7d1f0c520000"),
        KernelRoute(destination="10.77.0.0/16", interface="mnt"),
    ]


def test_addresses_are_read_without_those_of_local_networks() -> None:
    assert addresses_in(TRIE, [ipaddress.ip_network("10.77.1.0/24")]) == ["192.0.2.2"]


@pytest.mark.parametrize(
    ("cidr", "taken"),
    [
        ("192.0.2.128/25", "192.0.2.0/24"),
        ("192.0.0.0/16", "192.0.2.0/24"),
        ("10.77.9.0/24", "10.77.0.0/16"),
        ("10.78.0.0/24", None),
    ],
)
def test_range_that_has_addresses_of_a_route_is_found(cidr: str, taken: str | None) -> None:
    overlap = overlapping(cidr, routes_in(TABLE.splitlines()))
    assert (None if overlap is None else overlap.destination) == taken


def test_this_host_has_its_own_addresses() -> None:
    overlap = overlapping("127.0.0.0/24", routes_of_host())
    assert str(overlap) == "the address 127.0.0.1 of this host"
