"""Which range of a pool a new subnet gets."""

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova import errors
from minova.objects.network.subnet_pools import (
    MAX_PREFIXES,
    SubnetPool,
    check_length,
    check_lengths,
    free_range,
    is_free,
    parse_prefixes,
    require_prefixes,
    units,
)


def pool(*prefixes: str, **more: Any) -> SubnetPool:
    version = ipaddress.ip_network(prefixes[0]).version
    plain = {"default_prefixlen": 26, "min_prefixlen": 8, "max_prefixlen": 32, "ip_version": version}
    return SubnetPool(id="p", project_id="mine", prefixes=prefixes, **{**plain, **more})


def test_a_pool_is_used_by_its_project_by_all_if_shared_and_by_administrators() -> None:
    own, shared = pool("10.0.0.0/24"), pool("10.0.0.0/24", shared=True)
    assert [each.usable_by("mine", is_admin=False) for each in (own, shared)] == [True, True]
    assert [each.usable_by("other", is_admin=False) for each in (own, shared)] == [False, True]
    assert own.usable_by("other", is_admin=True)
    assert (own.revision_number, own.is_default, own.default_quota) == (1, False, None)


@pytest.mark.parametrize(
    ("texts", "prefixes", "version"),
    [
        (["10.0.0.5/24"], ("10.0.0.0/24",), 4),
        (["10.0.0.0/24", "10.0.1.0/24", "10.9.0.0/16"], ("10.0.0.0/23", "10.9.0.0/16"), 4),
        (["10.0.0.0/8", "10.1.0.0/16"], ("10.0.0.0/8",), 4),
        (["2001:db8::/48"], ("2001:db8::/48",), 6),
    ],
)
def test_prefixes_are_joined(texts: list[str], prefixes: tuple[str, ...], version: int) -> None:
    assert parse_prefixes(texts) == (prefixes, version)


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        ([], "Empty subnet pool prefix list"),
        (["10.0.0.0/8", "2001:db8::/48"], "Cannot mix IPv4 and IPv6"),
        (["x" * 99], f"'{'x' * 64}' is not a valid IP subnet"),
        (["fe80::1%eth0"], "an address has a zone"),
        ([f"10.{number}.0.0/16" for number in range(MAX_PREFIXES + 1)], "a subnet pool has 100 at most"),
    ],
)
def test_prefixes_that_make_no_pool_are_refused(texts: list[str], why: str) -> None:
    with pytest.raises(errors.BadRequest, match=why):
        parse_prefixes(texts)


def test_a_pool_may_have_a_hundred_prefixes() -> None:
    assert len(parse_prefixes([f"10.{2 * number}.0.0/16" for number in range(100)])[0]) == 100


@pytest.mark.parametrize(
    ("version", "shortest", "longest", "default", "wrong"),
    [
        (4, 8, 32, 8, None),
        (4, 24, 24, 24, None),
        (6, 64, 128, 128, None),
        (4, 25, 24, 25, "min_prefixlen=25, max_prefixlen=24"),
        (4, 8, 33, 24, "max_prefixlen=33, ip_version_max=32"),
        (6, 64, 129, 64, "max_prefixlen=129, ip_version_max=128"),
        (4, 9, 32, 8, "default_prefixlen=8, min_prefixlen=9"),
        (4, 8, 24, 25, "default_prefixlen=25, max_prefixlen=24"),
    ],
)
def test_lengths_of_a_pool_are_in_order(version: int, shortest: int, longest: int, default: int, wrong: str) -> None:
    if wrong is None:
        check_lengths(version, shortest, longest, default)
        return
    with pytest.raises(errors.BadRequest, match=f"Illegal prefix bounds: {wrong}"):
        check_lengths(version, shortest, longest, default)


def test_prefixes_can_only_be_added() -> None:
    of_two = pool("10.0.0.0/24", "10.9.0.0/16")
    require_prefixes(of_two, ["10.0.0.0/24", "10.8.0.0/15"])
    for prefixes in (["10.0.0.0/24"], ["10.0.0.0/25", "10.9.0.0/16"], ["2001:db8::/32"], []):
        with pytest.raises(errors.BadRequest, match="Existing prefixes must be a subset"):
            require_prefixes(of_two, prefixes)


@pytest.mark.parametrize(
    ("length", "wrong"),
    [
        (24, None),
        (30, None),
        (23, "prefix length 23, minimum allowed prefix is 24"),
        (32, "prefix length 32, maximum allowed prefix is 31"),
        (31, "the prefix length of a subnet may be from 8 to 30"),
    ],
)
def test_a_length_that_a_pool_gives(length: int, wrong: str | None) -> None:
    of_lengths = pool("10.0.0.0/8", min_prefixlen=24, max_prefixlen=31)
    if wrong is None:
        check_length(of_lengths, length)
        return
    with pytest.raises(errors.BadRequest, match=wrong):
        check_length(of_lengths, length)


def test_a_subnet_is_no_shorter_than_a_subnet_can_be() -> None:
    with pytest.raises(errors.BadRequest, match="may be from 16 to 126"):
        check_length(pool("2001:db8::/32", min_prefixlen=8, max_prefixlen=128), 15)
    check_length(pool("2001:db8::/32", min_prefixlen=8, max_prefixlen=128), 16)


@pytest.mark.parametrize(
    ("cidr", "taken"),
    [("10.0.0.0/32", 1), ("10.0.0.0/24", 256), ("2001:db8::/64", 1), ("2001:db8::/62", 4), ("::/65", 0.5)],
)
def test_what_a_range_takes_of_the_quota(cidr: str, taken: float) -> None:
    assert units(cidr) == taken


@pytest.mark.parametrize(
    ("prefixes", "length", "taken", "chosen"),
    [
        (["10.0.0.0/24"], 26, [], "10.0.0.0/26"),
        (["10.0.0.0/24"], 24, [], "10.0.0.0/24"),
        (["10.0.0.0/24"], 23, [], None),
        (["10.0.0.0/24"], 26, ["10.0.0.0/26"], "10.0.0.64/26"),
        # The smallest block that has one, though an earlier one is free.
        (["10.0.0.0/24", "10.0.9.0/26"], 26, [], "10.0.9.0/26"),
        (["10.0.0.0/26", "10.0.9.0/26"], 26, [], "10.0.0.0/26"),
        (["10.0.0.0/24"], 26, ["10.0.0.64/26", "10.0.0.128/26"], "10.0.0.0/26"),
        (["10.0.0.0/24"], 25, ["10.0.0.255/32"], "10.0.0.0/25"),
        (["10.0.0.0/24"], 25, ["10.0.0.0/32", "10.0.0.255/32"], None),
        (["10.0.0.0/24"], 26, ["10.0.1.0/24", "9.0.0.0/8"], "10.0.0.0/26"),
        (["10.0.0.0/24"], 26, ["10.0.0.0/8"], None),
        (["2001:db8::/63"], 64, ["2001:db8::/64"], "2001:db8:0:1::/64"),
    ],
)
def test_a_new_subnet_gets_the_first_range_of_the_smallest_block(
    prefixes: list[str], length: int, taken: list[str], chosen: str | None
) -> None:
    assert free_range(pool(*prefixes), length, taken) == chosen


@given(taken=st.lists(st.integers(0, 63), unique=True), length=st.integers(24, 30))
def test_a_range_is_free_where_no_taken_one_overlaps_it(taken: list[int], length: int) -> None:
    of_one = pool("10.0.0.0/24")
    used = [f"10.0.0.{4 * number}/30" for number in taken]
    free = {
        str(block)
        for block in ipaddress.ip_network("10.0.0.0/24").subnets(new_prefix=length)
        if not any(block.overlaps(ipaddress.ip_network(text)) for text in used)
    }
    for block in ipaddress.ip_network("10.0.0.0/24").subnets(new_prefix=length):
        assert is_free(of_one, str(block), used) == (str(block) in free)
    chosen = free_range(of_one, length, used)
    assert (chosen is None) == (not free)
    assert chosen is None or chosen in free


def test_a_range_of_another_pool_or_version_is_not_free() -> None:
    assert not is_free(pool("10.0.0.0/24"), "10.0.1.0/24", [])
    assert not is_free(pool("10.0.0.0/24"), "2001:db8::/64", [])
    assert not is_free(pool("10.0.0.0/24"), "10.0.0.0/23", [])
