"""Validates rules of security groups. Pure; each refusal is a BadRequest with the reason."""

import ipaddress

from minova import errors
from minova.objects.network.network import IP_VERSIONS, SecurityGroupRule

# Protocols that hosts can filter, and their other names. libvirt does not support ports of udplite: it would open all
# of them.
WITH_PORTS = ("tcp", "udp", "sctp")
PROTOCOLS = (*WITH_PORTS, "udplite", "icmp", "icmpv6", "igmp", "ah", "esp")
NUMBERS = {
    "1": "icmp",
    "2": "igmp",
    "6": "tcp",
    "17": "udp",
    "50": "esp",
    "51": "ah",
    "58": "icmpv6",
    "132": "sctp",
    "136": "udplite",
}
# Neutron's names of protocols for which libvirt's filters have no element, and of any.
OTHER_NUMBERS = {
    "egp": 8,
    "dccp": 33,
    "gre": 47,
    "ipip": 4,
    "ipv6-encap": 41,
    "ipv6-frag": 44,
    "ipv6-nonxt": 59,
    "ipv6-opts": 60,
    "ipv6-route": 43,
    "ospf": 89,
    "pgm": 113,
    "rsvp": 46,
    "vrrp": 112,
}
_OF_NUMBERS = NUMBERS | {str(number): name for name, number in OTHER_NUMBERS.items()}
_OTHER_NAMES = {"ipv6-icmp": "icmpv6", "any": None, "0": None, "": None}
LARGEST = 255
MAX_PORT, MAX_ICMP = 65535, 255


def canonical_protocol(value: str | int | None, ethertype: str) -> str | None:
    """Returns a name of PROTOCOLS or OTHER_NUMBERS, or a number from 1 to 255 without a name; None: any. Raises BadRequest."""
    text = "" if value is None else str(value).lower()
    if text in _OTHER_NAMES:
        name = _OTHER_NAMES[text]
    else:
        name = _protocol_name(text, ethertype)
        if name not in PROTOCOLS and number_of(name) is None:
            allowed = ", ".join([*PROTOCOLS, *OTHER_NUMBERS])
            raise _invalid("protocol", f"'{text[:64]}' is none of any, {allowed}, and no number from 0 to {LARGEST}")
    if name == "icmp" and ethertype == "IPv6":
        return "icmpv6"
    if name == "icmpv6" and ethertype == "IPv4":
        raise _invalid("protocol", "icmpv6 is of IPv6")
    if name == "igmp" and ethertype == "IPv6":
        raise _invalid("protocol", "igmp is of IPv4")
    if name is not None and name.startswith("ipv6-") and ethertype == "IPv4":
        raise _invalid("protocol", f"{name} is of IPv6")
    return name


def _protocol_name(text: str, ethertype: str) -> str:
    """Returns the name of a number. One that IPv6 alone has a name for may also be a rule of IPv4: it keeps its number."""
    name = _OF_NUMBERS.get(text, text)
    return text if name.startswith("ipv6-") and ethertype == "IPv4" else name


def number_of(protocol: str | None) -> int | None:
    """Returns the number of a protocol for which libvirt's filters have no element; None: they have one."""
    if protocol is None or protocol in PROTOCOLS:
        return None
    if protocol in OTHER_NUMBERS:
        return OTHER_NUMBERS[protocol]
    is_number = protocol.isascii() and protocol.isdigit() and len(protocol) <= 3 and str(int(protocol)) == protocol
    return int(protocol) if is_number and 1 <= int(protocol) <= LARGEST else None


def check(rule: SecurityGroupRule) -> None:
    """Raises BadRequest."""
    remotes = (rule.remote_ip_prefix, rule.remote_group_id, rule.remote_address_group_id)
    if sum(remote is not None for remote in remotes) > 1:
        raise errors.BadRequest(
            "Only one of remote_ip_prefix or remote_group_id or remote_address_group_id may be provided."
        )
    _check_ports(rule)


def _check_ports(rule: SecurityGroupRule) -> None:
    low, high = rule.port_range_min, rule.port_range_max
    if low is None and high is None:
        return
    if rule.protocol is None:
        raise errors.BadRequest("Must also specify protocol if port range is given.")
    if rule.protocol in {"icmp", "icmpv6"}:
        if low is None:
            raise errors.BadRequest(
                f"ICMP code (port-range-max) {high} is provided but ICMP type (port-range-min) is missing."
            )
        if not all(0 <= number <= MAX_ICMP for number in (low, high) if number is not None):
            raise _invalid("port_range_min", f"type and code of ICMP are from 0 to {MAX_ICMP}")
    elif rule.protocol not in WITH_PORTS:
        raise _invalid("port_range_min", f"ports of {rule.protocol} are not filtered")
    elif low is None or high is None or not 1 <= low <= high <= MAX_PORT:
        raise errors.BadRequest("For TCP/UDP protocols, port_range_min must be <= port_range_max, and from 1 to 65535.")


def canonical_prefix(text: str | None, ethertype: str) -> str | None:
    """Returns the range as Neutron shows it: with the address that was given. Raises BadRequest."""
    if text is None:
        return None
    try:
        interface = ipaddress.ip_interface(text)
    except ValueError:
        raise _invalid("remote_ip_prefix", f"'{text[:64]}' is not a range such as 192.0.2.0/24") from None
    if "%" in text:
        raise _invalid("remote_ip_prefix", "it has a zone")
    if interface.version != IP_VERSIONS[ethertype]:
        raise errors.BadRequest(f"Conflicting value ethertype {ethertype} for CIDR {interface}")
    return interface.with_prefixlen


def normalized(prefix: str | None) -> str | None:
    """Returns the range without the bits of a host: 10.2.3.0/24 for 10.2.3.124/24."""
    return None if prefix is None else str(ipaddress.ip_interface(prefix).network)


def _invalid(field: str, reason: str) -> errors.BadRequest:
    return errors.BadRequest(f"Invalid input for {field}. Reason: {reason}.")
