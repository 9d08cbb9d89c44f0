"""An interface as its host needs it: its rules, how its guest gets addresses, and names."""

from typing import Any

import pytest

from minova.objects.network.vif import (
    MAX_RANGES,
    GroupMembers,
    MemberRanges,
    Vif,
    VifAddress,
    VifRule,
    VifSubnet,
    device_owner,
    filter_name,
    with_members,
    within_bound,
)


def rule(ranges: int | None, number: int = 1) -> VifRule:
    remotes = None if ranges is None else tuple(f"10.{block >> 8}.{block & 255}.0/32" for block in range(ranges))
    return VifRule(direction="ingress", ip_version=4, protocol="tcp", port_min=number, port_max=number, remotes=remotes)


def test_rules_stay_as_they_are_up_to_the_bound() -> None:
    every = (rule(MAX_RANGES - 1), rule(None), rule(0))
    assert within_bound(every) == every


def test_beyond_it_the_rules_with_the_most_ranges_go() -> None:
    plain, small = rule(None), rule(3)
    huge = [rule(MAX_RANGES // 2, number) for number in (1, 2, 3)]
    kept = within_bound((*huge, plain, small))
    assert kept == (plain, small, huge[0])
    assert within_bound([rule(MAX_RANGES + 1)]) == ()
    assert len(within_bound([rule(None, number) for number in range(MAX_RANGES + 5)])) == MAX_RANGES


# -- how a guest gets its addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cidr", "mode", "dhcp", "served"),
    [
        ("10.0.0.0/24", "", True, "dhcp"),
        ("10.0.0.0/24", "", False, ""),
        ("2001:db8::/64", "slaac", True, "slaac"),
        ("2001:db8::/80", "slaac", True, ""),
        ("2001:db8::/80", "dhcpv6-stateful", True, "dhcpv6-stateful"),
        ("2001:db8::/64", "", True, ""),
        ("2001:db8::/64", "slaac", False, ""),
    ],
)
def test_a_subnet_is_served_in_its_way(cidr: str, mode: str, dhcp: bool, served: str) -> None:
    subnet = VifSubnet(id="s", cidr=cidr, ipv6_mode=mode, enable_dhcp=dhcp)
    assert subnet.served == served
    assert subnet.ip_version == (6 if ":" in cidr else 4)


def vif(*pairs: tuple[str, str], **more: Any) -> Vif:
    subnets = (
        VifSubnet(id="four", cidr="10.0.0.0/24"),
        VifSubnet(id="off", cidr="10.9.0.0/24", enable_dhcp=False),
        VifSubnet(id="auto", cidr="2001:db8::/64", ipv6_mode="slaac"),
        VifSubnet(id="stateful", cidr="2001:db8:1::/64", ipv6_mode="dhcpv6-stateful"),
    )
    addresses = tuple(VifAddress(subnet_id=subnet, ip_address=address) for subnet, address in pairs)
    plain = {"port_id": "p", "mac_address": "fa:16:3e:00:00:01", "network_id": "n"}
    return Vif(**{**plain, "subnets": subnets, "addresses": addresses, **more})


def test_a_guest_gets_one_address_by_each_kind_of_dhcp_and_makes_all_others() -> None:
    pairs = (
        *(("four", "10.0.0.5"), ("four", "10.0.0.6"), ("off", "10.9.0.5"), ("gone", "10.8.0.5")),
        *(
            ("auto", "2001:db8::5"),
            ("auto", "2001:db8::6"),
            ("stateful", "2001:db8:1::5"),
            ("stateful", "2001:db8:1::6"),
        ),
    )
    assert [(address.ip_address, way) for address, way in vif(*pairs).served_addresses] == [
        ("10.0.0.5", "dhcp"),
        ("2001:db8::5", "slaac"),
        ("2001:db8::6", "slaac"),
        ("2001:db8:1::5", "dhcpv6-stateful"),
    ]
    assert vif(*pairs, network_type="neutron").served_addresses == ()


def test_a_network_is_carried_by_itself_or_by_its_segment() -> None:
    assert vif(network_type="vlan", physical_network="physnet1", segmentation_id=7).segment == "physnet1.7"
    assert vif(network_type="flat", physical_network="physnet1").segment == "physnet1"
    assert [vif(network_type=kind).from_neutron for kind in ("neutron", "local")] == [True, False]


def test_an_interface_is_as_its_sender_says_and_else_usual() -> None:
    plain = vif()
    assert (plain.mtu, plain.reachable, plain.admin_state_up, plain.port_security_enabled) == (1500, False, True, True)
    assert (plain.pending_delete, plain.active) == (False, True)
    assert VifRule(direction="ingress", ip_version=4).revision == 0


# -- members of security groups ----------------------------------------------------------------------------------------


def member_rule(revision: int, **more: Any) -> VifRule:
    plain = {"direction": "ingress", "ip_version": 4, "remotes": ("10.0.0.1/32",), "remote_group": "g"}
    return VifRule(**{**plain, "revision": revision, **more})


@pytest.mark.parametrize(
    ("network_type", "revision", "remotes"),
    [
        ("local", 5, ("10.0.0.1/32",)),
        ("local", 4, ("10.0.0.2/32",)),
        ("vlan", 4, ("10.0.0.3/32",)),
    ],
)
def test_newer_members_of_the_network_replace_those_of_a_rule(
    network_type: str, revision: int, remotes: tuple[str, ...]
) -> None:
    members = GroupMembers(
        group_id="g",
        revision=5,
        members=(
            MemberRanges(network_id="n", ip_version=6, ranges=("2001:db8::/128",)),
            MemberRanges(network_id="n", ip_version=4, ranges=("10.0.0.2/32",)),
            MemberRanges(ip_version=4, ranges=("10.0.0.3/32",)),
        ),
    )
    other = member_rule(9, remote_group="other")
    before = vif(network_type=network_type, rules=(member_rule(revision), other))
    after = with_members(before, {"g": members})
    assert after.rules == (member_rule(5, remotes=remotes), other)
    assert (after is before) == (revision == 5)


def test_a_group_without_members_reaches_nothing_and_no_rules_stay_none() -> None:
    members = {"g": GroupMembers(group_id="g", revision=2)}
    assert with_members(vif(rules=(member_rule(1),)), members).rules == (member_rule(2, remotes=()),)
    assert with_members(vif(rules=None), members).rules is None
    assert with_members(vif(rules=(member_rule(1),)), {}).rules == (member_rule(1),)


def test_names_of_ports_and_owners() -> None:
    assert (device_owner("z1"), device_owner(None), device_owner("")) == ("compute:z1", "compute:nova", "compute:nova")
    assert filter_name("p") == "minova-port-p"
