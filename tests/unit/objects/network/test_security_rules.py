"""Rules of security groups: protocols by their names, ports, ranges."""

from typing import Any

import pytest

from minova import errors
from minova.objects.network.network import SecurityGroupRule
from minova.objects.network.security_rules import canonical_prefix, canonical_protocol, check, normalized, number_of


@pytest.mark.parametrize(
    ("value", "ethertype", "name"),
    [
        (None, "IPv4", None),
        ("", "IPv4", None),
        ("any", "IPv6", None),
        (0, "IPv4", None),
        ("TCP", "IPv4", "tcp"),
        (6, "IPv6", "tcp"),
        ("1", "IPv4", "icmp"),
        ("1", "IPv6", "icmpv6"),
        ("icmp", "IPv6", "icmpv6"),
        ("ipv6-icmp", "IPv6", "icmpv6"),
        ("58", "IPv6", "icmpv6"),
        ("2", "IPv4", "igmp"),
        (17, "IPv4", "udp"),
        (50, "IPv4", "esp"),
        (51, "IPv4", "ah"),
        (132, "IPv4", "sctp"),
        (136, "IPv4", "udplite"),
        ("gre", "IPv4", "gre"),
        ("47", "IPv4", "gre"),
        ("60", "IPv6", "ipv6-opts"),
        # IPv6 alone has a name for it, and a rule of IPv4 may have its number.
        ("60", "IPv4", "60"),
        ("ipv6-route", "IPv6", "ipv6-route"),
        ("99", "IPv4", "99"),
        ("255", "IPv6", "255"),
    ],
)
def test_a_protocol_has_one_name(value: str | int | None, ethertype: str, name: str | None) -> None:
    assert canonical_protocol(value, ethertype) == name


@pytest.mark.parametrize(
    ("value", "ethertype", "why"),
    [
        ("icmpv6", "IPv4", "icmpv6 is of IPv6"),
        ("58", "IPv4", "icmpv6 is of IPv6"),
        ("igmp", "IPv6", "igmp is of IPv4"),
        ("ipv6-frag", "IPv4", "ipv6-frag is of IPv6"),
        ("256", "IPv4", "'256' is none of any, tcp, "),
        ("-1", "IPv4", "no number from 0 to 255"),
        ("007", "IPv4", "no number"),
        ("\u0663", "IPv4", "no number"),
        ("x" * 100, "IPv4", f"'{'x' * 64}' is none of"),
    ],
)
def test_a_protocol_that_no_rule_can_have_is_refused(value: str, ethertype: str, why: str) -> None:
    with pytest.raises(errors.BadRequest, match="Invalid input for protocol") as refused:
        canonical_protocol(value, ethertype)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("protocol", "number"),
    [
        *((None, None), ("tcp", None), ("udplite", None), ("gre", 47), ("egp", 8), ("dccp", 33), ("ipip", 4)),
        *(("ipv6-encap", 41), ("ipv6-frag", 44), ("ipv6-nonxt", 59), ("ipv6-opts", 60), ("ipv6-route", 43)),
        *(("ospf", 89), ("pgm", 113), ("rsvp", 46), ("vrrp", 112)),
        *(("3", 3), ("1", 1), ("255", 255), ("0", None), ("256", None), ("1000", None), ("x", None)),
    ],
)
def test_a_protocol_for_which_there_is_no_element_has_its_number(protocol: str | None, number: int | None) -> None:
    assert number_of(protocol) == number


def rule(**more: Any) -> SecurityGroupRule:
    return SecurityGroupRule(**{"id": "r", "security_group_id": "g", "project_id": "p", "direction": "ingress", **more})


PORTS_BETWEEN = "port_range_min must be <= port_range_max, and from 1 to 65535"


@pytest.mark.parametrize(
    ("protocol", "low", "high", "why"),
    [
        ("tcp", None, None, None),
        (None, None, None, None),
        ("tcp", 1, 65535, None),
        ("sctp", 80, 80, None),
        ("udp", 80, 79, PORTS_BETWEEN),
        ("tcp", 0, 80, PORTS_BETWEEN),
        ("tcp", 1, 65536, PORTS_BETWEEN),
        ("tcp", 80, None, PORTS_BETWEEN),
        ("tcp", None, 80, PORTS_BETWEEN),
        (None, 80, 80, "Must also specify protocol if port range is given"),
        (None, None, 80, "Must also specify protocol"),
        ("icmp", 0, None, None),
        ("icmp", 255, 255, None),
        ("icmpv6", 0, 0, None),
        ("icmp", None, 4, r"ICMP code \(port-range-max\) 4 is provided but ICMP type \(port-range-min\) is missing"),
        ("icmp", 256, None, "type and code of ICMP are from 0 to 255"),
        ("icmpv6", 3, 256, "type and code of ICMP"),
        ("icmp", -1, None, "type and code of ICMP"),
        ("gre", 1, 2, "ports of gre are not filtered"),
        ("udplite", 1, 2, "ports of udplite are not filtered"),
    ],
)
def test_ports(protocol: str | None, low: int | None, high: int | None, why: str | None) -> None:
    of_ports = rule(protocol=protocol, port_range_min=low, port_range_max=high)
    if why is None:
        check(of_ports)
        return
    with pytest.raises(errors.BadRequest, match=why):
        check(of_ports)


@pytest.mark.parametrize(
    "remotes",
    [
        {"remote_ip_prefix": "10.0.0.0/8", "remote_group_id": "g"},
        {"remote_ip_prefix": "10.0.0.0/8", "remote_address_group_id": "a"},
        {"remote_group_id": "g", "remote_address_group_id": "a"},
    ],
)
def test_a_rule_has_one_remote_side(remotes: dict[str, str]) -> None:
    with pytest.raises(errors.BadRequest, match="Only one of remote_ip_prefix or remote_group_id"):
        check(rule(**remotes))
    for name, value in remotes.items():
        check(rule(**{name: value}))


@pytest.mark.parametrize(
    ("text", "ethertype", "prefix", "without_host"),
    [
        (None, "IPv4", None, None),
        ("10.2.3.124/24", "IPv4", "10.2.3.124/24", "10.2.3.0/24"),
        ("10.2.3.4", "IPv4", "10.2.3.4/32", "10.2.3.4/32"),
        ("2001:DB8::5/64", "IPv6", "2001:db8::5/64", "2001:db8::/64"),
    ],
)
def test_a_range_keeps_its_address(text: str | None, ethertype: str, prefix: str | None, without_host: str) -> None:
    assert canonical_prefix(text, ethertype) == prefix
    assert normalized(prefix) == without_host


@pytest.mark.parametrize(
    ("text", "ethertype", "why"),
    [
        ("x" * 99, "IPv4", f"'{'x' * 64}' is not a range"),
        ("fe80::1%eth0/64", "IPv6", "it has a zone"),
        ("10.0.0.0/8", "IPv6", "Conflicting value ethertype IPv6 for CIDR 10.0.0.0/8"),
        ("2001:db8::/64", "IPv4", "Conflicting value ethertype IPv4"),
    ],
)
def test_a_range_that_is_none_is_refused(text: str, ethertype: str, why: str) -> None:
    with pytest.raises(errors.BadRequest, match=why):
        canonical_prefix(text, ethertype)
