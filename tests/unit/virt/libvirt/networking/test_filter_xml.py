"""The rules of a port's network filter."""

from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest

from minova.objects.network.addresses import link_local
from minova.objects.network.network import EGRESS, INGRESS, AddressPair
from minova.objects.network.vif import MAX_RANGES, Vif, VifAddress, VifRule, VifSubnet, filter_name
from minova.virt.libvirt.networking.filter_xml import filter_xml, filters_of

MAC = "fa:16:3e:00:00:0f"
FOUR = VifSubnet(id="4", cidr="10.1.0.0/24", gateway_ip="10.1.0.1")
PORT = "7d1f0c52-0000-4000-8000-000000000001"
Row = tuple[str, str, str, dict[str, str]]
TAGGED = [("drop", "inout", "mac", {"protocolid": number}) for number in ("0x8100", "0x88a8", "0x9100")]


def rules(**values: Any) -> list[Row]:
    """(action, direction, protocol, what it matches) in the order in which they hold, after those of tagged frames."""
    vif = Vif(
        port_id=PORT,
        mac_address=MAC,
        network_id="n",
        **{
            "network_type": "flat",
            "addresses": (VifAddress(subnet_id="4", ip_address="10.1.0.5"),),
            "subnets": (FOUR,),
            **values,
        },
    )
    root = ET.fromstring(filter_xml(vif))
    assert (root.get("name"), root.findtext("uuid")) == (filter_name(PORT), PORT)
    every = sorted(root.findall("rule"), key=lambda rule: int(rule.get("priority", "")))
    rows = [(str(rule.get("action")), str(rule.get("direction")), rule[0].tag, dict(rule[0].attrib)) for rule in every]
    assert rows[: len(TAGGED)] == TAGGED, "no frame with a VLAN tag passes, whatever the port"
    return rows[len(TAGGED) :]


# What QEMU sends in the name of a guest that has just arrived.
ANNOUNCEMENT = (
    "accept",
    "out",
    "rarp",
    {
        "srcmacaddr": MAC,
        "arpsrcmacaddr": MAC,
        "arpdstmacaddr": MAC,
        "opcode": "Request_Reverse",
        "arpsrcipaddr": "0.0.0.0",
        "arpdstipaddr": "0.0.0.0",
    },
)


def test_guest_sends_from_its_own_addresses_alone() -> None:
    assert rules() == [
        (
            "accept",
            "out",
            "ip",
            {
                "srcmacaddr": MAC,
                "srcipaddr": "0.0.0.0",
                "dstipaddr": "255.255.255.255",
                "protocol": "udp",
                "srcportstart": "68",
                "dstportstart": "67",
            },
        ),
        ("drop", "out", "ip", {"protocol": "udp", "srcportstart": "67", "dstportstart": "68"}),
        ("accept", "out", "arp", {"srcmacaddr": MAC, "arpsrcmacaddr": MAC, "arpsrcipaddr": "0.0.0.0"}),
        ANNOUNCEMENT,
        ("accept", "out", "arp", {"srcmacaddr": MAC, "arpsrcmacaddr": MAC, "arpsrcipaddr": "10.1.0.5"}),
        ("accept", "out", "ip", {"srcmacaddr": MAC, "srcipaddr": "10.1.0.5"}),
        ("drop", "out", "mac", {}),
    ]


def test_bug_no_switch_learns_where_a_guest_has_arrived() -> None:
    """It had no answer for half a minute: until the others' neighbour tables asked again."""
    assert ANNOUNCEMENT in rules()


def test_pairs_allow_more_and_no_security_allows_all() -> None:
    pairs = (AddressPair(ip_address="10.1.0.64/28", mac_address="02:00:00:00:00:01"),)
    allowed = [row[3] for row in rules(allowed_address_pairs=pairs) if row[0] == "accept"]
    assert {"srcmacaddr": "02:00:00:00:00:01", "srcipaddr": "10.1.0.64", "srcipmask": "28"} in allowed
    assert rules(port_security_enabled=False) == []
    assert rules(port_security_enabled=False, rules=()) == []


def test_bug_pair_of_all_addresses_sends_as_no_host() -> None:
    """From 0.0.0.0 to 0.0.0.0 a guest reached services of its host."""
    pairs = (AddressPair(ip_address="0.0.0.0/0"), AddressPair(ip_address="::/0"))
    rows = rules(network_type="local", allowed_address_pairs=pairs)
    sent = [row for row in rows if row[1:3] == ("out", "ip") and "srcipaddr" in row[3]]
    dropped = [f"{row[3]['srcipaddr']}/{row[3]['srcipmask']}" for row in sent if row[0] == "drop"]
    assert dropped == ["0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3"]
    # A guest asks for its address before that, and sends from all others after it.
    accepted = [(number, row[3].get("dstportstart")) for number, row in enumerate(sent) if row[0] == "accept"]
    assert accepted == [(0, "67"), (5, None), (6, None)]


def test_ipv6_is_for_ports_that_have_such_an_address() -> None:
    six = (VifAddress(subnet_id="6", ip_address="fd00::5"),)
    rows = rules(addresses=six)
    assert ("drop", "out", "ipv6", {"protocol": "icmpv6", "type": "134"}) in rows
    assert ("drop", "out", "ipv6", {"protocol": "udp", "srcportstart": "547", "dstportstart": "546"}) in rows
    sources = [row[3]["srcipaddr"] for row in rows if row[0] == "accept" and row[2] == "ipv6"]
    assert sources == [link_local(MAC), "::", "fd00::5"]
    assert link_local(MAC) == "fe80::f816:3eff:fe00:f"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (VifRule(direction=EGRESS, ip_version=4), [("out", "all", {})]),
        (
            VifRule(direction=INGRESS, ip_version=4, protocol="tcp", port_min=1, port_max=9, remotes=("10.0.0.0/8",)),
            [
                (
                    "in",
                    "tcp",
                    {
                        "state": "NEW,ESTABLISHED",
                        "dstportstart": "1",
                        "dstportend": "9",
                        "srcipaddr": "10.0.0.0",
                        "srcipmask": "8",
                    },
                )
            ],
        ),
        (
            VifRule(direction=INGRESS, ip_version=4, protocol="icmp", port_min=8, port_max=0),
            [("in", "icmp", {"state": "NEW,ESTABLISHED", "type": "8", "code": "0"})],
        ),
        (VifRule(direction=INGRESS, ip_version=4, remotes=()), []),
        (VifRule(direction=INGRESS, ip_version=6), []),
    ],
)
def test_rules_of_groups(rule: VifRule, expected: list[tuple[str, str, dict[str, str]]]) -> None:
    without, rows = rules(rules=()), rules(rules=(rule,))
    assert [row[1:] for row in rows if row not in without] == expected
    assert rows[-2:] == [("drop", "inout", "all", {}), ("drop", "inout", "all-ipv6", {})]


def test_ipv6_rules_and_discovery() -> None:
    six = (VifAddress(subnet_id="6", ip_address="fd00::5"),)
    rule = VifRule(direction=INGRESS, ip_version=6, protocol="tcp", port_min=22, port_max=22, remotes=("fd00::/64",))
    rows = rules(addresses=six, rules=(rule,))
    remote = {"srcipaddr": "fd00::", "srcipmask": "64"}
    ports = {"state": "NEW,ESTABLISHED", "dstportstart": "22", "dstportend": "22"}
    assert ("accept", "in", "tcp-ipv6", ports | remote) in rows
    assert ("accept", "in", "icmpv6", {"type": "135"}) in rows


def test_local_guest_reaches_dhcp_dns_metadata_and_a_ping_of_its_gateway_whatever_its_groups_say() -> None:
    """And its host reaches it from there. What else the gateway lets pass is not decided here."""
    state = {"state": "NEW,ESTABLISHED"}
    gateway = [
        ("accept", "out", "udp", {**state, "dstipaddr": "10.1.0.1", "dstportstart": "53"}),
        ("accept", "out", "tcp", {**state, "dstipaddr": "10.1.0.1", "dstportstart": "53"}),
        ("accept", "out", "icmp", {**state, "dstipaddr": "10.1.0.1", "type": "8"}),
        ("accept", "in", "all", {**state, "srcipaddr": "10.1.0.1"}),
        ("accept", "out", "udp", {**state, "srcportstart": "68", "dstportstart": "67"}),
        ("accept", "out", "tcp", {**state, "dstipaddr": "169.254.169.254", "dstportstart": "80"}),
        ("accept", "in", "tcp", {"state": "ESTABLISHED", "srcipaddr": "169.254.169.254", "srcportstart": "80"}),
    ]
    rows = rules(network_type="local", port_security_enabled=False)
    assert rows == [("accept", "out", "all", {"state": "ESTABLISHED,RELATED"}), *gateway]
    secured = rules(network_type="local", rules=())
    assert [row for row in secured if row in gateway] == gateway
    assert secured[-2:] == [("drop", "inout", "all", {}), ("drop", "inout", "all-ipv6", {})]
    unserved = (VifSubnet(id="4", cidr="10.1.0.0/24", enable_dhcp=False),)
    assert not [row for row in rules(network_type="local", rules=(), subnets=unserved) if row in gateway]


@pytest.mark.parametrize("kind", ["local", "flat"])
def test_guest_reaches_a_server_without_gateway_whatever_its_groups_say(kind: str) -> None:
    """At the address of the metadata service, and by IPv6 at its link-local one."""
    subnets = (
        VifSubnet(id="4", cidr="10.1.0.0/24"),
        VifSubnet(id="6", cidr="fd00::/64", ipv6_mode="slaac"),
    )
    rows = rules(network_type=kind, rules=(), subnets=subnets)
    new = {"state": "NEW,ESTABLISHED"}
    for row in (
        ("accept", "in", "udp", {**new, "srcportstart": "67", "dstportstart": "68"}),
        ("accept", "out", "udp", {**new, "srcportstart": "68", "dstportstart": "67"}),
        ("accept", "out", "udp", {**new, "dstipaddr": "169.254.169.254", "dstportstart": "53"}),
        ("accept", "out", "tcp", {**new, "dstipaddr": "169.254.169.254", "dstportstart": "80"}),
        ("accept", "out", "udp-ipv6", {**new, "srcportstart": "546", "dstportstart": "547"}),
    ):
        assert row in rows
    closed = tuple(msgspec.structs.replace(each, enable_dhcp=False) for each in subnets)
    shut = [row for row in rules(network_type=kind, rules=(), subnets=closed) if "169.254.169.254" in row[3].values()]
    assert shut == []


def test_filters_of_a_domain() -> None:
    assert filters_of(
        "<domain><devices><interface/><interface><filterref filter='f'/></interface></devices></domain>"
    ) == ["f"]


def test_filter_has_a_bound_whatever_the_conductor_says() -> None:
    """Only what lets something through goes."""
    remotes = tuple(f"192.{number >> 8}.{number & 255}.1/32" for number in range(MAX_RANGES + 1))
    few = (VifRule(direction=INGRESS, ip_version=4, protocol="tcp", port_min=22, port_max=22),)
    huge = VifRule(direction=INGRESS, ip_version=4, protocol="udp", remotes=remotes)
    assert rules(rules=(huge, *few)) == rules(rules=few)
    assert ("drop", "inout", "all", {}) in rules(rules=(huge,))
