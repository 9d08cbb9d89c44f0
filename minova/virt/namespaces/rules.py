"""The packet rules of local networks, as text for `nft`: what may pass; all else is dropped.

A text replaces the table of the same name in one step. There are two: one in the namespace of each network, one in the
host for all of them.
"""

from collections.abc import Iterable, Mapping

from minova.objects.servers.guest_metadata import ADDRESS, PORT
from minova.virt.namespaces.network import GUESTS, HOST, LINK, UPLINK, LocalNetwork, Record

TABLE = "minova"
_LINK_LOCAL = "169.254.0.0/16"


def of_network(record: Record) -> str:
    """Returns the rules in the namespace of a network."""
    network = record.network
    ranges, gateways = _set(each.cidr for each in network.subnets), _set(each.gateway for each in network.subnets)
    guest = f"iifname {GUESTS} ip saddr {ranges}"
    host = f"iifname {HOST} ip saddr {record.host_end}"
    incoming = [
        "iifname lo accept",
        "ct state established,related accept",
        f"iifname {GUESTS} udp sport 68 udp dport 67 accept",
        f"{guest} ip daddr {gateways} meta l4proto {{ tcp, udp }} th dport 53 accept",
        f"{guest} ip daddr {gateways} icmp type echo-request accept",
        *([f"{guest} ip daddr {ADDRESS} tcp dport {PORT} accept"] if network.metadata else []),
        *([f"{host} ip daddr {gateways} icmp type echo-request accept"] if network.reachable else []),
    ]
    forwarded = [
        "ct state established,related accept",
        f"{guest} oifname {HOST} ip daddr != {_LINK_LOCAL} accept",
        *([f"{host} oifname {GUESTS} ip daddr {ranges} accept"] if network.reachable else []),
    ]
    # The guests of a reachable network see their gateway in place of the host, whose link-local address they could not
    # answer.
    translated = [f"oifname {HOST} masquerade", f"iifname {HOST} oifname {GUESTS} masquerade"]
    return _table(
        "inet",
        _chain("input", "filter hook input priority filter; policy drop;", incoming),
        _chain("forward", "filter hook forward priority filter; policy drop;", forwarded),
        _chain("postrouting", "nat hook postrouting priority srcnat;", translated),
    )


def of_host(records: Iterable[Record], zones: Mapping[str, int]) -> str:
    """Returns the rules of the host. `zones`: zones of connection tracking of other bridges."""
    records = sorted(records, key=lambda record: record.index)
    bridges = {record.network.bridge: record.zone for record in records}
    uplinks = f'iifname "{UPLINK}*"'
    to_resolver = f"{uplinks} ip saddr {LINK} ip daddr {LINK} meta l4proto {{ tcp, udp }} th dport 53 accept"
    own = _set(bridges)
    # A bridge is no way into the host, whatever the address.
    closed = [f"iifname {own} drop"] if bridges else []
    incoming = [
        *closed,
        f"{uplinks} ct state established,related accept",
        to_resolver,
        f"{uplinks} drop",
    ]
    forwarded = [
        *([f"iifname {own} oifname != {own} drop", f"iifname != {own} oifname {own} drop"] if bridges else []),
        f'{uplinks} oifname "{UPLINK}*" drop',
        f"{uplinks} ip saddr {LINK} ip daddr != {_LINK_LOCAL} accept",
        f'oifname "{UPLINK}*" ct state established,related accept',
        f"{uplinks} drop",
        f'oifname "{UPLINK}*" drop',
    ]
    zoned = {**bridges, **zones}
    elements = ", ".join(f'"{bridge}" : {zone}' for bridge, zone in sorted(zoned.items()))
    # The host's own connections over a bridge stay in the zone of the host.
    tracked = ["fib daddr type local accept", "ct zone set iifname map @zones"] if zoned else []
    zone_map = ["map zones { typeof iifname : ct zone", f"elements = {{ {elements} }}", "}"] if zoned else []
    rules = _table(
        "inet",
        *zone_map,
        _chain("prerouting", "filter hook prerouting priority raw; policy accept;", tracked),
        _chain("input", "filter hook input priority filter - 10; policy accept;", incoming),
        _chain("forward", "filter hook forward priority filter - 10; policy accept;", forwarded),
        _chain(
            "postrouting",
            "nat hook postrouting priority srcnat;",
            [f'ip saddr {LINK} oifname != "{UPLINK}*" masquerade'],
        ),
    )
    # Without it the host would answer for its addresses on the bridges.
    return rules + _table("arp", _chain("input", "filter hook input priority filter; policy accept;", closed))


def no_rules() -> str:
    """Returns what removes the rules of the host."""
    return "".join(f"table {family} {TABLE}\ndelete table {family} {TABLE}\n" for family in ("inet", "arp"))


def _table(family: str, *parts: str) -> str:
    body = "\n".join(parts)
    return f"table {family} {TABLE}\ndelete table {family} {TABLE}\ntable {family} {TABLE} {{\n{body}\n}}\n"


def _chain(name: str, head: str, rules: Iterable[str]) -> str:
    return "\n".join([f"chain {name} {{", f"type {head}", *rules, "}"])


def _set(members: Iterable[str]) -> str:
    return f"{{ {', '.join(members)} }}"


def has_gateway(network: LocalNetwork) -> bool:
    """Whether the network needs a namespace: without a gateway nothing on the host answers its guests."""
    return bool(network.subnets)
