"""What a port lets through, as a network filter of libvirt: no address but its own, and what its security groups allow.

On the bridge (ebtables) a guest sends from its own addresses alone, answers for no other one, and offers neither
addresses nor routes. Above it (iptables) connections are followed. A rule with a state of its own costs one command for
what comes in and two for what goes out; without one libvirt writes three.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from xml.etree import ElementTree as ET

from minova.objects.guest_metadata import ADDRESS, PORT
from minova.objects.network import EGRESS, INGRESS, LOCAL
from minova.objects.vif import Vif, VifRule, filter_name, within_bound

# Rules of lower numbers come first: on the bridge below 0, above it from 0 on.
_L2, _L2_END, _REPLIES, _GATEWAY, _HOST, _ALLOWED, _END = -900, -500, 100, 150, 200, 300, 900
_NEW = "NEW,ESTABLISHED"
# The field's names; libvirt's elements of IPv6 end in -ipv6, but for ICMP's.
_ICMP = {4: "icmp", 6: "icmpv6"}
# What hosts take without being named.
_EVERYBODY = ("255.255.255.255/32", "224.0.0.0/4")
# Of one wire alone: at one of them a cloud that the host is a guest of would answer as to the host.
_LINK_LOCAL = "169.254.0.0/16"
# Router and neighbour discovery, and reports of listeners: what a guest sends, and what reaches it.
_DISCOVERY_OUT, _DISCOVERY_IN = (133, 135, 136, 143), (130, 134, 135, 136)
_ROUTER_ADVERTISEMENT, _REDIRECT = 134, 137


class Rule(NamedTuple):
    action: str
    direction: str
    priority: int
    protocol: str
    attributes: dict[str, str]
    stateless: bool = False


def filter_xml(vif: Vif, host_addresses: Sequence[str] = (), *, metadata: bool = False) -> str:
    """The filter of a port. `host_addresses`: of the host, which its `local` networks' guests do not reach. `metadata`: the host has
    the address of the metadata service.
    """
    root = ET.Element("filter", name=filter_name(vif.port_id), chain="root")
    ET.SubElement(root, "uuid").text = vif.port_id
    for rule in _rules(vif, host_addresses, metadata=metadata):
        attributes = {"action": rule.action, "direction": rule.direction, "priority": str(rule.priority)}
        if rule.stateless:
            attributes["statematch"] = "false"
        element = ET.SubElement(root, "rule", attributes)
        ET.SubElement(element, rule.protocol, rule.attributes)
    return ET.tostring(root, encoding="unicode")


def _rules(vif: Vif, host_addresses: Sequence[str], *, metadata: bool) -> Iterator[Rule]:
    own = _sources(vif)
    versions: set[int] = {ipaddress.ip_network(address).version for _, address in own}
    if vif.port_security_enabled:
        yield from _own_addresses(vif, own, versions)
    is_local = vif.network_type == LOCAL
    is_filtered = vif.port_security_enabled and vif.rules is not None
    if is_local or is_filtered:
        yield Rule("accept", "out", _REPLIES, "all", {"state": "ESTABLISHED,RELATED"})
    if is_local:
        yield from _host(vif, host_addresses, metadata=metadata)
    if vif.rules is not None and is_filtered:
        yield from _groups(vif.rules, versions, is_local=is_local)


def _groups(rules: Sequence[VifRule], versions: set[int], *, is_local: bool) -> Iterator[Rule]:
    """What the security groups of the port let through, and nothing else but what every guest needs."""
    yield Rule("accept", "in", _REPLIES, "all", {"state": "RELATED"})
    if not is_local:
        yield Rule("accept", "in", _GATEWAY, "udp", {"state": _NEW, "srcportstart": "67", "dstportstart": "68"})
        yield Rule("accept", "out", _GATEWAY, "udp", {"state": _NEW, "srcportstart": "68", "dstportstart": "67"})
    if 6 in versions:
        yield Rule("accept", "out", _REPLIES, "all-ipv6", {"state": "ESTABLISHED,RELATED"})
        yield Rule("accept", "in", _REPLIES, "all-ipv6", {"state": "RELATED"})
        # Connection tracking does not follow them.
        for direction, types in (("out", _DISCOVERY_OUT), ("in", _DISCOVERY_IN)):
            for number in types:
                yield Rule("accept", direction, _GATEWAY, "icmpv6", {"type": str(number)}, stateless=True)
    # The conductor has done the same: this is the last guard of libvirt and of the host's tables.
    for rule in within_bound(rules):
        if rule.ip_version == 4 or 6 in versions:
            yield from _allowed(rule)
    yield Rule("drop", "inout", _END, "all", {})
    yield Rule("drop", "inout", _END, "all-ipv6", {})


def _sources(vif: Vif) -> list[tuple[str, str]]:
    """(MAC address, range) from which the guest may send."""
    own = [(vif.mac_address, address.ip_address) for address in vif.addresses]
    own += [(pair.mac_address or vif.mac_address, pair.ip_address) for pair in vif.allowed_address_pairs]
    return list(dict.fromkeys(own))


def _own_addresses(vif: Vif, own: Sequence[tuple[str, str]], versions: set[int]) -> Iterator[Rule]:
    """Nothing leaves the guest but from these addresses, and no answers of DHCP servers or routers."""
    ports = {"protocol": "udp", "srcportstart": "67", "dstportstart": "68"}
    yield Rule("drop", "out", _L2 - 10, "ip", ports)
    yield Rule(
        "accept",
        "out",
        _L2,
        "ip",
        {
            "srcmacaddr": vif.mac_address,
            "srcipaddr": "0.0.0.0",
            "dstipaddr": "255.255.255.255",
            "protocol": "udp",
            "srcportstart": "68",
            "dstportstart": "67",
        },
    )
    # Whether an address is free is asked without one.
    yield _arp(vif.mac_address, "0.0.0.0")
    if 6 in versions:
        yield from _discovery(vif)
    for mac, address in own:
        block = ipaddress.ip_network(address)
        if block.version == 4:
            yield _arp(mac, address)
        protocol = "ip" if block.version == 4 else "ipv6"
        yield Rule("accept", "out", _L2, protocol, {"srcmacaddr": mac, **_range("src", address)})
    yield Rule("drop", "out", _L2_END, "mac", {})


def _arp(mac: str, address: str) -> Rule:
    block = ipaddress.ip_network(address)
    senders = {"arpsrcipaddr": str(block.network_address)}
    if block.prefixlen < block.max_prefixlen:
        senders["arpsrcipmask"] = str(block.netmask)
    return Rule("accept", "out", _L2, "arp", {"srcmacaddr": mac, "arpsrcmacaddr": mac, **senders})


def _discovery(vif: Vif) -> Iterator[Rule]:
    """The link-local address is made of the MAC address; from none a guest asks whether an address is free."""
    for number in (_ROUTER_ADVERTISEMENT, _REDIRECT):
        yield Rule("drop", "out", _L2 - 10, "ipv6", {"protocol": "icmpv6", "type": str(number)})
    yield Rule("drop", "out", _L2 - 10, "ipv6", {"protocol": "udp", "srcportstart": "547", "dstportstart": "546"})
    macs = [vif.mac_address, *(pair.mac_address or vif.mac_address for pair in vif.allowed_address_pairs)]
    for mac in dict.fromkeys(macs):
        yield Rule("accept", "out", _L2, "ipv6", {"srcmacaddr": mac, "srcipaddr": link_local(mac)})
    yield Rule("accept", "out", _L2, "ipv6", {"srcmacaddr": vif.mac_address, "srcipaddr": "::", "protocol": "icmpv6"})


def link_local(mac: str) -> str:
    """The address that a guest makes of its MAC address (EUI-64)."""
    numbers = [int(part, 16) for part in mac.split(":")]
    numbers[0] ^= 2
    full = [*numbers[:3], 0xFF, 0xFE, *numbers[3:]]
    return str(ipaddress.IPv6Address(bytes([0xFE, 0x80, *[0] * 6, *full])))


def _host(vif: Vif, host_addresses: Sequence[str], *, metadata: bool) -> Iterator[Rule]:
    """Of its host a guest reaches DHCP, DNS, metadata and a ping of the gateway. Answers to what the host asks are connections.

    Neither broadcast nor multicast of IPv4: libvirt's rules cannot tell the host from the other guests there.
    """
    gateways = [
        str(subnet.gateway_ip)
        for subnet in vif.subnets
        if subnet.gateway_ip is not None and ipaddress.ip_address(subnet.gateway_ip).version == 4
    ]
    for gateway in gateways:
        for protocol in ("udp", "tcp"):
            yield Rule("accept", "out", _GATEWAY, protocol, {"state": _NEW, "dstipaddr": gateway, "dstportstart": "53"})
        yield Rule("accept", "out", _GATEWAY, "icmp", {"state": _NEW, "dstipaddr": gateway, "type": "8"})
    if gateways:
        yield Rule("accept", "out", _GATEWAY, "udp", {"state": _NEW, "srcportstart": "68", "dstportstart": "67"})
    if gateways and metadata:
        service = {"dstipaddr": ADDRESS, "dstportstart": str(PORT)}
        yield Rule("accept", "out", _GATEWAY, "tcp", {"state": _NEW, **service})
    if (
        not vif.port_security_enabled
    ):  # it may give addresses to other guests; answers of secured ones end on the bridge
        answers = {"dstipaddr": "255.255.255.255", "srcportstart": "67", "dstportstart": "68"}
        yield Rule("accept", "out", _GATEWAY, "udp", {"state": _NEW, **answers})
    for address in sorted({*gateways, *_broadcasts(vif), *host_addresses}):
        yield Rule("drop", "out", _HOST, "all", {"dstipaddr": address})
    for block in (*_EVERYBODY, _LINK_LOCAL):
        yield Rule("drop", "out", _HOST, "all", _range("dst", block))


def _broadcasts(vif: Vif) -> Iterator[str]:
    for subnet in vif.subnets:
        block = ipaddress.ip_network(subnet.cidr)
        if block.version == 4:
            yield str(block.broadcast_address)


def _allowed(rule: VifRule) -> Iterator[Rule]:
    attributes: dict[str, str] = {}
    if rule.protocol in {"icmp", "icmpv6"}:
        tag = _ICMP[rule.ip_version]
        attributes |= _numbers({"type": rule.port_min, "code": rule.port_max})
    else:
        tag = (rule.protocol or "all") + ("-ipv6" if rule.ip_version == 6 else "")
        attributes |= _numbers({"dstportstart": rule.port_min, "dstportend": rule.port_max})
    # Without a state of its own libvirt adds a rule for the answers: what goes out needs it.
    states = {"state": _NEW} if rule.direction == INGRESS else {}
    directions = {INGRESS: ("in", "src"), EGRESS: ("out", "dst")}
    direction, side = directions[rule.direction]
    for remote in [{}] if rule.remotes is None else [_range(side, each) for each in rule.remotes]:
        yield Rule("accept", direction, _ALLOWED, tag, {**states, **attributes, **remote})


def _numbers(values: dict[str, int | None]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value is not None}


def _range(side: str, text: str) -> dict[str, str]:
    block = ipaddress.ip_network(text)
    address = {f"{side}ipaddr": str(block.network_address)}
    if block.prefixlen < block.max_prefixlen:
        address[f"{side}ipmask"] = str(block.prefixlen)
    return address


def closed_to(xml: str, host_addresses: Iterable[str]) -> str | None:
    """A filter that is there, so that its guest does not reach these addresses of the host either. None: it is so.

    Filters of guests that are not on `local` networks stay.
    """
    root = ET.fromstring(xml)
    own = root.findall(f"rule[@action='drop'][@priority='{_HOST}']/all")
    missing = sorted(set(host_addresses) - {each.get("dstipaddr", "") for each in own}) if own else []
    for address in missing:
        attributes = {"action": "drop", "direction": "out", "priority": str(_HOST)}
        ET.SubElement(ET.SubElement(root, "rule", attributes), "all", dstipaddr=address)
    return ET.tostring(root, encoding="unicode") if missing else None


def filters_of(xml: str) -> list[str]:
    """The names of the filters that a domain's interfaces refer to."""
    references: Iterable[ET.Element] = ET.fromstring(xml).findall("devices/interface/filterref")
    return [reference.get("filter", "") for reference in references]
