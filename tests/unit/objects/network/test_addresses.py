"""Which addresses a subnet has, and which come next."""

import ipaddress

import pytest

from minova import errors
from minova.objects.network import addresses
from minova.objects.network.network import AllocationPool
from minova.objects.network.vif import bridge_name, network_name, tap_name

POOLS = (AllocationPool(start="10.1.0.2", end="10.1.0.4"), AllocationPool(start="10.1.0.8", end="10.1.0.9"))
EVERY = ["10.1.0.2", "10.1.0.3", "10.1.0.4", "10.1.0.8", "10.1.0.9"]


@pytest.mark.parametrize("last", [None, *EVERY, "10.1.0.1", "10.1.0.6", "10.1.0.200"])
def test_candidates_are_every_address_once_from_the_one_after_the_last(last: str | None) -> None:
    candidates = addresses.candidates_after(POOLS, last, 100)
    assert sorted(candidates) == EVERY
    if last is not None:
        behind = [each for each in EVERY if int(ipaddress.ip_address(each)) > int(ipaddress.ip_address(last))]
        assert candidates[0] == (behind or EVERY)[0]
    assert addresses.candidates_after(POOLS, last, 2) == candidates[:2]


def test_first_free_address_is_found_without_counting_the_pool() -> None:
    wide = (AllocationPool(start="2001:db8::1", end="2001:db8::ffff:ffff:ffff:ffff"),)
    assert addresses.first_free(wide, {"2001:db8::1", "2001:db8::2"}) == "2001:db8::3"
    assert addresses.first_free(POOLS, set(EVERY)) is None
    assert addresses.first_free((), ()) is None


@pytest.mark.parametrize(
    ("cidr", "gateway", "pools"),
    [
        ("10.1.0.0/30", "10.1.0.1", ["10.1.0.2-10.1.0.2"]),
        ("10.1.0.0/30", None, ["10.1.0.1-10.1.0.2"]),
        ("10.1.0.0/29", "10.1.0.6", ["10.1.0.1-10.1.0.5"]),
        ("10.1.0.0/29", "10.1.0.3", ["10.1.0.1-10.1.0.2", "10.1.0.4-10.1.0.6"]),
        ("2001:db8::/126", "2001:db8::1", ["2001:db8::2-2001:db8::3"]),
    ],
)
def test_default_pools_are_all_but_the_gateway(cidr: str, gateway: str | None, pools: list[str]) -> None:
    block = addresses.parse_cidr(cidr, ipaddress.ip_network(cidr).version)
    default_pools = addresses.default_pools(block, gateway)
    assert [f"{pool.start}-{pool.end}" for pool in default_pools] == pools
    assert addresses.check_pools(block, default_pools, gateway) == default_pools


@pytest.mark.parametrize("text", ["", "fa:16:3e:00:00", "fa:16:3e:00:00:0g", "00:00:00:00:00:00", "01:00:5e:00:00:01"])
def test_mac_that_no_interface_has_is_refused(text: str) -> None:
    with pytest.raises(errors.BadRequest, match="mac_address"):
        addresses.parse_mac(text)


def test_made_macs_are_of_one_prefix() -> None:
    assert addresses.mac_of(0) == "fa:16:3e:00:00:00"
    assert addresses.mac_of(2**24 + 0x0A0B0C) == "fa:16:3e:0a:0b:0c"
    assert addresses.parse_mac("FA-16-3E-0A-0B-0C") == "fa:16:3e:0a:0b:0c"


@pytest.mark.parametrize(
    ("cidr", "version"),
    [
        *(("10.0.0.0/8", 4), ("10.0.0.0/30", 4), ("192.0.2.9/24", 4), ("1.0.0.0/8", 4), ("223.255.255.0/24", 4)),
        *(("2001::/16", 6), ("2001:db8::/126", 6), ("fc00::/64", 6)),
    ],
)
def test_ranges_of_subnets(cidr: str, version: int) -> None:
    assert addresses.parse_cidr(cidr, version) == ipaddress.ip_network(cidr, strict=False)


@pytest.mark.parametrize(
    ("cidr", "version", "why"),
    [
        ("x" * 99, 4, f"'{'x' * 64}' is not valid: it is not a range such as 192.0.2.0/24"),
        ("fe80::%eth0/64", 6, "it has a zone"),
        ("10.0.0.1", 4, "it has no prefix length"),
        ("10.0.0.0/24", 6, "ip_version is 6"),
        ("2001:db8::/64", 4, "ip_version is 4"),
        ("10.0.0.0/7", 4, "the prefix length may be from 8 to 30"),
        ("10.0.0.0/31", 4, "the prefix length may be from 8 to 30"),
        ("2000::/15", 6, "the prefix length may be from 16 to 126"),
        ("2001:db8::/127", 6, "the prefix length may be from 16 to 126"),
        ("127.0.0.0/24", 4, "it has multicast, loopback"),
        ("0.0.0.0/8", 4, "it has multicast, loopback"),
        ("224.0.0.0/24", 4, "it has multicast"),
        ("169.254.0.0/24", 4, "it has multicast"),
        ("fe80::/64", 6, "it has multicast"),
        ("ff02::/64", 6, "it has multicast"),
        ("::/64", 6, "it has multicast"),
    ],
)
def test_ranges_that_no_subnet_has_are_refused(cidr: str, version: int, why: str) -> None:
    with pytest.raises(errors.BadRequest, match="Invalid input for cidr") as refused:
        addresses.parse_cidr(cidr, version)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("cidr", "limited", "why"),
    [
        *(("10.1.0.0/16", True, None), ("fc00::/48", True, None), ("192.0.2.0/24", False, None)),
        *(("172.31.0.0/16", True, None), ("100.64.0.0/16", True, None), ("192.168.0.0/16", True, None)),
        ("192.0.2.0/24", True, "it is not private, and a local network's is in one of: 10.0.0.0/8, 172.16.0.0/12, "),
        ("2001:db8::/48", True, "one of: fc00::/7"),
        ("172.32.0.0/16", True, "it is not private"),
        ("10.0.0.0/15", True, "the prefix length of a local network's is 16 at least"),
        ("fc00::/47", False, "the prefix length of a local network's is 48 at least"),
    ],
)
def test_ranges_of_local_networks(cidr: str, limited: bool, why: str | None) -> None:
    block = ipaddress.ip_network(cidr)
    if why is None:
        addresses.check_local_range(block, limited=limited)
        return
    with pytest.raises(errors.BadRequest) as refused:
        addresses.check_local_range(block, limited=limited)
    assert why in str(refused.value)
    assert ("fc00" in str(refused.value)) == (block.version == 6)


@pytest.mark.parametrize(
    ("text", "version", "why"),
    [
        ("x", None, "it is not an IP address"),
        ("fe80::1%eth0", None, "it has a zone"),
        ("10.0.0.1", 6, "it is not an IPv6 address"),
        ("2001:db8::1", 4, "it is not an IPv4 address"),
    ],
)
def test_an_address_that_is_none_is_refused(text: str, version: int | None, why: str) -> None:
    with pytest.raises(errors.BadRequest, match=f"Invalid input for ip. Reason: '{text}' is not valid: {why}"):
        addresses.parse_address("ip", text, version)


def test_an_address_is_of_the_version_that_is_asked_for_or_of_any() -> None:
    for text, version in (("10.0.0.1", 4), ("2001:db8::1", 6)):
        for asked in (version, None):
            assert str(addresses.parse_address("ip", text, asked)) == text
        assert addresses.is_address(text)
    assert not addresses.is_address("10.0.0")


@pytest.mark.parametrize(
    ("prefix", "mode", "servable"),
    [
        *((64, "slaac", True), (63, "slaac", False), (65, "slaac", False), (64, "dhcpv6-stateless", True)),
        *((80, "dhcpv6-stateless", False), (64, "dhcpv6-stateful", True), (63, "dhcpv6-stateful", False)),
        (126, "dhcpv6-stateful", True),
    ],
)
def test_hosts_advertise_ranges_from_64_bits_on(prefix: int, mode: str, servable: bool) -> None:
    assert addresses.is_servable(prefix, mode) is servable


def test_a_guest_makes_its_address_of_its_mac() -> None:
    block = ipaddress.ip_network("2001:db8::/64")
    assert addresses.automatic_address(block, "fa:16:3e:0a:0b:0c") == "2001:db8::f816:3eff:fe0a:b0c"
    assert addresses.automatic_address(block, "00:16:3e:00:00:01") == "2001:db8::216:3eff:fe00:1"
    assert addresses.link_local("fa:16:3e:0a:0b:0c") == "fe80::f816:3eff:fe0a:b0c"


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        *(("192.0.2.1", True), ("2001:db8::1", True), ("10.0.0.1", True)),
        *(("127.0.0.53", False), ("::1", False), ("fe80::1", False), ("224.0.0.1", False), ("10.0.0.9", False)),
    ],
)
def test_a_resolver_is_another_machine_than_the_host(text: str, fine: bool) -> None:
    if fine:
        assert addresses.parse_resolver("dns", text, {"10.0.0.9"}) == text
        return
    with pytest.raises(errors.BadRequest, match=r"dns.*a host would ask itself"):
        addresses.parse_resolver("dns", text, {"10.0.0.9"})


@pytest.mark.parametrize(
    ("text", "shortest"),
    [
        *(("192.0.2.1", "192.0.2.1"), ("192.0.2.1/32", "192.0.2.1"), ("192.0.2.0/31", "192.0.2.0/31")),
        *(("2001:DB8::/128", "2001:db8::"), ("2001:db8::/127", "2001:db8::/127")),
    ],
)
def test_a_range_has_its_shortest_form(text: str, shortest: str) -> None:
    assert addresses.parse_range("pair", text) == shortest


@pytest.mark.parametrize(("text", "why"), [("192.0.2.1/24", "not an address or range"), ("fe80::%eth0/64", "a zone")])
def test_a_range_that_is_none_is_refused(text: str, why: str) -> None:
    with pytest.raises(errors.BadRequest, match=f"pair.*{why}"):
        addresses.parse_range("pair", text)


def test_the_gateway_is_the_first_address_unless_another_is_named() -> None:
    block = ipaddress.ip_network("10.1.0.0/29")
    assert addresses.default_gateway(block) == "10.1.0.1"
    assert [addresses.check_gateway(block, f"10.1.0.{last}") for last in (1, 6)] == ["10.1.0.1", "10.1.0.6"]
    assert addresses.check_gateway(ipaddress.ip_network("2001:db8::/126"), "2001:DB8::3") == "2001:db8::3"
    for text in ("10.1.0.0", "10.1.0.7", "10.1.0.8", "10.0.0.255"):
        with pytest.raises(errors.BadRequest, match=r"gateway_ip.*it is no address of a host in 10\.1\.0\.0/29"):
            addresses.check_gateway(block, text)
    with pytest.raises(errors.BadRequest, match="it is not an IPv4 address"):
        addresses.check_gateway(block, "2001:db8::1")


def pools(*texts: str) -> list[AllocationPool]:
    return [AllocationPool(start=start, end=end) for start, _, end in (text.partition("-") for text in texts)]


@pytest.mark.parametrize(
    ("texts", "gateway", "error", "why"),
    [
        (["10.1.0.6-10.1.0.2"], None, errors.BadRequest, "it ends before it starts"),
        (["10.1.0.0-10.1.0.2"], None, errors.BadRequest, "it has addresses that no host in 10.1.0.0/29 may have"),
        (["10.1.0.5-10.1.0.7"], None, errors.BadRequest, "it has addresses that no host"),
        (["2001:db8::1-2001:db8::2"], None, errors.BadRequest, "it is not an IPv4 address"),
        (["10.1.0.4-10.1.0.6", "10.1.0.1-10.1.0.4"], None, errors.OverlappingAllocationPools, "10.1.0.0/29 overlap"),
        (["10.1.0.1-10.1.0.3"], "10.1.0.3", errors.GatewayConflictWithAllocationPools, "Gateway ip 10.1.0.3 is in"),
    ],
)
def test_pools_are_in_the_subnet_and_apart(
    texts: list[str], gateway: str | None, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        addresses.check_pools(ipaddress.ip_network("10.1.0.0/29"), pools(*texts), gateway)


def test_pools_are_sorted() -> None:
    block = ipaddress.ip_network("10.1.0.0/29")
    checked = addresses.check_pools(block, pools("10.1.0.3-10.1.0.6", "10.1.0.1-10.1.0.1"), "10.1.0.2")
    assert checked == tuple(pools("10.1.0.1-10.1.0.1", "10.1.0.3-10.1.0.6"))
    assert addresses.check_pools(block, pools("10.1.0.2-10.1.0.2"), None) == tuple(pools("10.1.0.2-10.1.0.2"))
    assert addresses.size(checked) == 5
    assert addresses.size(pools("10.1.0.1-10.1.1.0")) == 256
    wide = ipaddress.ip_network("10.1.0.0/24")
    apart = [f"10.1.0.{number}-10.1.0.{number}" for number in range(1, 22, 2)]
    assert len(addresses.check_pools(wide, pools(*apart[:10]), None)) == 10
    with pytest.raises(errors.BadRequest, match="there may be 10"):
        addresses.check_pools(wide, pools(*apart), None)


@pytest.mark.parametrize(
    ("cidr", "text", "error"),
    [
        *(
            ("10.1.0.0/29", "10.1.0.1", None),
            ("10.1.0.0/29", "10.1.0.6", None),
            ("2001:db8::/126", "2001:db8::3", None),
        ),
        ("10.1.0.0/29", "10.1.0.0", errors.InvalidIpForSubnet),
        ("10.1.0.0/29", "10.1.0.7", errors.InvalidIpForSubnet),
        ("10.1.0.0/29", "2001:db8::1", errors.InvalidIpForSubnet),
        ("::/16", "0.0.0.5", errors.InvalidIpForSubnet),
        ("10.1.0.0/29", "10.1.0.2", errors.IpAddressAlreadyAllocated),
        ("10.1.0.0/29", "x", errors.BadRequest),
    ],
)
def test_a_fixed_address_is_one_of_the_subnet(cidr: str, text: str, error: type[Exception] | None) -> None:
    if error is None:
        assert addresses.check_fixed(cidr, None, text) == text
        return
    with pytest.raises(error, match=r"ip_address|valid IP for subnet|is the gateway of subnet"):
        addresses.check_fixed(cidr, "10.1.0.2", text)


def test_ranges_contain_and_overlap_within_their_version() -> None:
    assert addresses.contains("10.1.0.0/24", "10.1.0.255")
    assert not addresses.contains("10.1.0.0/24", "10.1.1.0")
    assert not addresses.contains("::/0", "10.1.1.0")
    others = ["2001:db8::/64", "10.2.0.0/16", "10.1.0.128/25", "10.1.0.0/16"]
    assert addresses.overlap("10.1.0.0/24", others) == "10.1.0.128/25"
    assert addresses.overlap("10.1.0.0/25", others) == "10.1.0.0/16"
    assert addresses.overlap("10.3.0.0/16", others) is None
    assert addresses.overlap("::/0", others[1:]) is None


def test_pools_have_the_addresses_between_their_ends() -> None:
    assert [addresses.in_pools(POOLS, f"10.1.0.{last}") for last in (1, 2, 4, 5, 8, 9, 10)] == [
        *(False, True, True, False, True, True, False)
    ]


def test_names_on_hosts_fit_the_kernel() -> None:
    network_id = "7d1f0c52-1111-4222-8333-000000000001"
    assert network_name(network_id) == f"minova-{network_id}"
    assert (bridge_name(network_id), tap_name(network_id)) == ("mn7d1f0c521111", "tap7d1f0c52-11")
    assert len(bridge_name(network_id)) <= 15 >= len(tap_name(network_id))
