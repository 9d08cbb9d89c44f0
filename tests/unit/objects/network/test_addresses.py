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


def test_names_on_hosts_fit_the_kernel() -> None:
    network_id = "7d1f0c52-1111-4222-8333-000000000001"
    assert network_name(network_id) == f"minova-{network_id}"
    assert (bridge_name(network_id), tap_name(network_id)) == ("mn7d1f0c521111", "tap7d1f0c52-11")
    assert len(bridge_name(network_id)) <= 15 >= len(tap_name(network_id))
