"""The filter of a port, as a network filter of libvirt: only the port's own addresses, and what its security groups
allow.

On the bridge (ebtables) a guest sends and gets only frames without a VLAN tag; with port security it sends only from its own
addresses, answers for no other address, and offers neither addresses nor routes. Above it (iptables) connections are tracked. A rule with an explicit state costs one command for
ingress and two for egress; without one libvirt writes three.
"""

import ipaddress
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple
from xml.etree import ElementTree as ET

from minova.objects.guests.guest_metadata import ADDRESS, PORT
from minova.objects.network.addresses import OF_EACH_HOST, link_local, overlap
from minova.objects.network.network import EGRESS, INGRESS, LOCAL
from minova.objects.network.security_rules import number_of
from minova.objects.network.vif import Vif, VifRule, VifSubnet, filter_name, within_bound
from minova.virt.namespaces.protocol_sets import set_name

# Priorities: rules with lower numbers come first. Numbers below 0 are on the bridge, numbers from 0 on above it.
_L2, _L2_END, _REPLIES, _GATEWAY, _ALLOWED, _END = -900, -500, 100, 150, 300, 900
_NEW = "NEW,ESTABLISHED"
# The types of frames with a VLAN tag: 802.1Q, 802.1ad, and that of older switches.
_TAGGED = ("0x8100", "0x88a8", "0x9100")
_ARP_ADDRESSES = ("arpsrcipaddr", "arpdstipaddr")
# Names of ICMP; libvirt's other elements for IPv6 end in -ipv6.
_ICMP = {4: "icmp", 6: "icmpv6"}
_LINK_LOCAL = "169.254.0.0/16"
# ICMPv6 types of router and neighbour discovery and of multicast listener reports: those a guest sends, and those it
# receives.
_DISCOVERY_OUT, _DISCOVERY_IN = (133, 135, 136, 143), (130, 134, 135, 136)
_ROUTER_ADVERTISEMENT, _REDIRECT = 134, 137


class FilterRule(NamedTuple):
    action: str
    direction: str
    priority: int
    protocol: str
    attributes: dict[str, str]
    stateless: bool = False


def filter_xml(vif: Vif, sets: Collection[int] = ()) -> str:
    """Returns the filter of a port. `sets`: the protocols for which the host has sets; rules of other protocols that libvirt
    does not know let nothing through.
    """
    root = ET.Element("filter", name=filter_name(vif.port_id), chain="root")
    ET.SubElement(root, "uuid").text = vif.port_id
    for rule in _rules(vif, sets):
        attributes = {"action": rule.action, "direction": rule.direction, "priority": str(rule.priority)}
        if rule.stateless:
            attributes["statematch"] = "false"
        element = ET.SubElement(root, "rule", attributes)
        ET.SubElement(element, rule.protocol, rule.attributes)
    return ET.tostring(root, encoding="unicode")


def _rules(vif: Vif, sets: Collection[int]) -> Iterator[FilterRule]:
    own = _sources(vif)
    versions: set[int] = {ipaddress.ip_network(address).version for _, address in own}
    # Only the network's own tag may reach the wire, and the packet filter of a guest does not look into tagged frames: the
    # guest takes one with the tag 0 for an untagged one.
    for number in _TAGGED:
        yield FilterRule("drop", "inout", _L2 - 30, "mac", {"protocolid": number})
    if vif.port_security_enabled:
        yield from _own_addresses(vif, own, versions)
    is_local = vif.network_type == LOCAL
    is_filtered = vif.port_security_enabled and vif.rules is not None
    if is_local or is_filtered:
        yield FilterRule("accept", "out", _REPLIES, "all", {"state": "ESTABLISHED,RELATED"})
    if is_local or is_filtered:
        yield from _server(vif)
    if vif.rules is not None and is_filtered:
        rules = [rule for rule in vif.rules if (of_set := number_of(rule.protocol)) is None or of_set in sets]
        yield from _groups(rules, versions, is_local=is_local)


def _groups(rules: Sequence[VifRule], versions: set[int], *, is_local: bool) -> Iterator[FilterRule]:
    """Yields rules that allow what the security groups of the port allow and what every guest needs, and drop
    everything else.
    """
    yield FilterRule("accept", "in", _REPLIES, "all", {"state": "RELATED"})
    if not is_local:
        yield FilterRule("accept", "in", _GATEWAY, "udp", {"state": _NEW, "srcportstart": "67", "dstportstart": "68"})
        yield FilterRule("accept", "out", _GATEWAY, "udp", {"state": _NEW, "srcportstart": "68", "dstportstart": "67"})
    if 6 in versions:
        yield FilterRule("accept", "out", _REPLIES, "all-ipv6", {"state": "ESTABLISHED,RELATED"})
        yield FilterRule("accept", "in", _REPLIES, "all-ipv6", {"state": "RELATED"})
        # Connection tracking does not cover these types.
        for direction, types in (("out", _DISCOVERY_OUT), ("in", _DISCOVERY_IN)):
            for number in types:
                yield FilterRule("accept", direction, _GATEWAY, "icmpv6", {"type": str(number)}, stateless=True)
    # The conductor applies the same bound: this is the last protection of libvirt and of the host's tables.
    for rule in within_bound(rules):
        if rule.ip_version == 4 or 6 in versions:
            yield from _allowed(rule)
    yield FilterRule("drop", "inout", _END, "all", {})
    yield FilterRule("drop", "inout", _END, "all-ipv6", {})


def _sources(vif: Vif) -> list[tuple[str, str]]:
    """Returns the pairs (MAC address, range) from which the guest may send."""
    own = [(vif.mac_address, address.ip_address) for address in vif.addresses]
    own += [(pair.mac_address or vif.mac_address, pair.ip_address) for pair in vif.allowed_address_pairs]
    return list(dict.fromkeys(own))


def _own_addresses(vif: Vif, own: Sequence[tuple[str, str]], versions: set[int]) -> Iterator[FilterRule]:
    """Yields rules that let the guest send only from these addresses, and no answers of DHCP servers or routers."""
    ports = {"protocol": "udp", "srcportstart": "67", "dstportstart": "68"}
    yield FilterRule("drop", "out", _L2 - 10, "ip", ports)
    # Comes before what an address pair as large as 0.0.0.0/0 would let the guest send as a host.
    yield FilterRule(
        "accept",
        "out",
        _L2 - 20,
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
    for block in OF_EACH_HOST:
        # On a flat network or VLAN, guests may agree on link-local addresses.
        is_free = block.version != 4 or (str(block) == _LINK_LOCAL and vif.network_type != LOCAL)
        if not is_free and overlap(str(block), (address for _, address in own)) is not None:
            yield FilterRule("drop", "out", _L2 - 10, "ip", _range("src", str(block)))
    # An ARP probe, which checks whether an address is free, has no sender address.
    yield _arp(vif.mac_address, "0.0.0.0")
    # After a live migration QEMU tells the switches where the guest is now. Otherwise they learn it from the guest's next frame.
    yield _announcement(vif.mac_address)
    if 6 in versions:
        yield from _discovery(vif)
    for mac, address in own:
        block = ipaddress.ip_network(address)
        if block.version == 4:
            yield _arp(mac, address)
        protocol = "ip" if block.version == 4 else "ipv6"
        yield FilterRule("accept", "out", _L2, protocol, {"srcmacaddr": mac, **_range("src", address)})
    yield FilterRule("drop", "out", _L2_END, "mac", {})


def _arp(mac: str, address: str) -> FilterRule:
    block = ipaddress.ip_network(address)
    senders = {"arpsrcipaddr": str(block.network_address)}
    if block.prefixlen < block.max_prefixlen:
        senders["arpsrcipmask"] = str(block.netmask)
    return FilterRule("accept", "out", _L2, "arp", {"srcmacaddr": mac, "arpsrcmacaddr": mac, **senders})


def _announcement(mac: str) -> FilterRule:
    own = {"srcmacaddr": mac, "arpsrcmacaddr": mac, "arpdstmacaddr": mac}
    return FilterRule(
        "accept", "out", _L2, "rarp", {**own, "opcode": "Request_Reverse", **dict.fromkeys(_ARP_ADDRESSES, "0.0.0.0")}
    )


def _discovery(vif: Vif) -> Iterator[FilterRule]:
    """Yields the rules of IPv6 discovery. The link-local address is derived from the MAC address. A guest probes
    whether an address is free from the unspecified address.
    """
    for number in (_ROUTER_ADVERTISEMENT, _REDIRECT):
        yield FilterRule("drop", "out", _L2 - 10, "ipv6", {"protocol": "icmpv6", "type": str(number)})
    yield FilterRule("drop", "out", _L2 - 10, "ipv6", {"protocol": "udp", "srcportstart": "547", "dstportstart": "546"})
    macs = [vif.mac_address, *(pair.mac_address or vif.mac_address for pair in vif.allowed_address_pairs)]
    for mac in dict.fromkeys(macs):
        yield FilterRule("accept", "out", _L2, "ipv6", {"srcmacaddr": mac, "srcipaddr": link_local(mac)})
    yield FilterRule(
        "accept", "out", _L2, "ipv6", {"srcmacaddr": vif.mac_address, "srcipaddr": "::", "protocol": "icmpv6"}
    )


def _server(vif: Vif) -> Iterator[FilterRule]:
    """Yields rules for what the host serves on a network: a guest reaches DHCP, DNS, the metadata service and, at the gateway
    of a `local` network, a ping whatever its groups say, and the host reaches the guest from there. The namespace of the network
    decides what else may pass there.
    """
    subnets = [subnet for subnet in vif.subnets if subnet.served or (vif.network_type == LOCAL and subnet.gateway_ip)]
    gateways = [str(subnet.gateway_ip) for subnet in subnets if subnet.gateway_ip and vif.network_type == LOCAL]
    for gateway in gateways:
        six, icmp, echo = ("-ipv6", "icmpv6", "128") if ":" in gateway else ("", "icmp", "8")
        for protocol in ("udp", "tcp"):
            at = {"state": _NEW, "dstipaddr": gateway, "dstportstart": "53"}
            yield FilterRule("accept", "out", _GATEWAY, protocol + six, at)
        yield FilterRule("accept", "out", _GATEWAY, icmp, {"state": _NEW, "dstipaddr": gateway, "type": echo})
        yield FilterRule("accept", "in", _GATEWAY, f"all{six}", {"state": _NEW, "srcipaddr": gateway})
    versions = {subnet.ip_version for subnet in subnets}
    if 4 in versions:
        yield from _server4(vif, is_linked=any(not _is_gateway(vif, each) for each in subnets if each.ip_version == 4))
    if 6 in versions:
        yield from _server6(vif)


def _is_gateway(vif: Vif, subnet: VifSubnet) -> bool:
    return vif.network_type == LOCAL and subnet.gateway_ip is not None


def _server4(vif: Vif, *, is_linked: bool) -> Iterator[FilterRule]:
    """`is_linked`: the server has no address but that of the metadata service."""
    if vif.network_type == LOCAL:
        yield FilterRule("accept", "out", _GATEWAY, "udp", {"state": _NEW, "srcportstart": "68", "dstportstart": "67"})
    if vif.network_type == LOCAL and is_linked:
        yield FilterRule("accept", "in", _GATEWAY, "udp", {"state": _NEW, "srcportstart": "67", "dstportstart": "68"})
    services = [("tcp", str(PORT)), *([("udp", "53"), ("tcp", "53")] if is_linked else [])]
    for protocol, port in services:
        at = {"dstipaddr": ADDRESS, "dstportstart": port}
        yield FilterRule("accept", "out", _GATEWAY, protocol, {"state": _NEW, **at})
        answers = {"srcipaddr": ADDRESS, "srcportstart": port}
        yield FilterRule("accept", "in", _GATEWAY, protocol, {"state": "ESTABLISHED", **answers})


def _server6(vif: Vif) -> Iterator[FilterRule]:
    """The server has a link-local address. Whose answers come in is decided by the rules of the bridge."""
    server = _range("src", "fe80::/64")
    ports = {"srcportstart": "547", "dstportstart": "546"}
    yield FilterRule(
        "accept", "out", _GATEWAY, "udp-ipv6", {"state": _NEW, "srcportstart": "546", "dstportstart": "547"}
    )
    yield FilterRule("accept", "in", _GATEWAY, "udp-ipv6", {"state": _NEW, **server, **ports})
    for protocol in ("udp-ipv6", "tcp-ipv6"):
        at = {**_range("dst", "fe80::/64"), "dstportstart": "53"}
        yield FilterRule("accept", "out", _GATEWAY, protocol, {"state": _NEW, **at})
        yield FilterRule("accept", "in", _GATEWAY, protocol, {"state": "ESTABLISHED", **server, "srcportstart": "53"})


def _allowed(rule: VifRule) -> Iterator[FilterRule]:
    attributes: dict[str, str] = {}
    if rule.protocol in {"icmp", "icmpv6"}:
        tag = _ICMP[rule.ip_version]
        attributes |= _numbers({"type": rule.port_min, "code": rule.port_max})
    elif (number := number_of(rule.protocol)) is not None:
        tag = "all" + ("-ipv6" if rule.ip_version == 6 else "")
        attributes |= {"ipset": set_name(number, rule.ip_version), "ipsetflags": "src,src"}
    else:
        tag = (rule.protocol or "all") + ("-ipv6" if rule.ip_version == 6 else "")
        attributes |= _numbers({"dstportstart": rule.port_min, "dstportend": rule.port_max})
    # Without an explicit state libvirt adds a rule for the answers: egress needs it.
    states = {"state": _NEW} if rule.direction == INGRESS else {}
    directions = {INGRESS: ("in", "src"), EGRESS: ("out", "dst")}
    direction, side = directions[rule.direction]
    for remote in [{}] if rule.remotes is None else [_range(side, each) for each in rule.remotes]:
        yield FilterRule("accept", direction, _ALLOWED, tag, {**states, **attributes, **remote})


def _numbers(values: dict[str, int | None]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value is not None}


def _range(side: str, text: str) -> dict[str, str]:
    block = ipaddress.ip_network(text)
    address = {f"{side}ipaddr": str(block.network_address)}
    if block.prefixlen < block.max_prefixlen:
        address[f"{side}ipmask"] = str(block.prefixlen)
    return address


def filters_of(xml: str) -> list[str]:
    """Returns the names of the filters to which a domain's interfaces refer."""
    references: Iterable[ET.Element] = ET.fromstring(xml).findall("devices/interface/filterref")
    return [reference.get("filter", "") for reference in references]
