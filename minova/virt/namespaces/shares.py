"""Shares of the host's table of connections, as text for `nft`: what one network and one interface may have open, so that one
guest does not fill the table for all.

The kernel gives up connections that were never answered, or are closed, when the table is full. So only those count that guests
of this host open, and not what reaches them from outside: a flood of it takes nothing away from them.

    table bridge    marks frames that come from a device of a guest
    table inet      counts the connections that these open, and those that come from a namespace to the host
"""

from collections.abc import Iterator
from pathlib import Path

from minova.virt.namespaces.network import UPLINK

TABLE = "minova-shares"
# How many connections the rules have dropped. They keep it, as they keep the sets.
DROPPED = "dropped"
# Of the table: for one network, and for one MAC address on it. A routed connection has an entry on its bridge and one to the host.
OF_A_NETWORK, OF_AN_INTERFACE = 8, 16
# The kernel walks through a list of connections to count them, so each share has so many short lists instead of a long one.
LISTS = 128
_MAX = Path("/proc/sys/net/netfilter/nf_conntrack_max")
_DEFAULT_MAX = 1 << 16
# The mark of a frame from a guest, until it is counted.
_MARK = 0x6D6E0000
# The most lists of networks, and of interfaces, that have connections: the kernel makes room for them at once, 1 MB each. If
# those of interfaces are used up by forged addresses, the share of the network still holds.
_ELEMENTS = 1 << 16
# Protocols whose packets always have two numbers of 16 bits first.
_WITH_PORTS = "{ tcp, udp, udplite, sctp, dccp, icmp, icmpv6 }"


def table_size() -> int:
    """Returns how many connections the host tracks."""
    try:
        return int(_MAX.read_text())
    except FileNotFoundError:  # tracking is not loaded yet
        return _DEFAULT_MAX


def of_former(listed: str, size: int) -> str:
    """Returns what removes rules with other limits than a table of this size has; "" if there are none. `listed`: the sets of
    the host. An element of a set keeps the limit with which it was made, and that of a busy guest stays. So counts begin anew.
    """
    return "" if all(f"set {name} {{" in listed for name in _sets(size)) else no_rules()


def of_host(size: int) -> str:
    """Returns the rules for a table of this size. They keep the sets with their counts: new sets would let each network have
    its connections once more.
    """
    (by_network, networks), (by_interface, interfaces) = _sets(size).items()
    # The first packet: others of a connection that nothing answers are new, too.
    is_first = "ct state new ct status & confirmed == 0"
    lines = [
        *(f"table {family} {TABLE}\nflush table {family} {TABLE}" for family in ("inet", "bridge")),
        f"table inet {TABLE} {{",
        f"counter {DROPPED} {{ }}",
        f"set {by_network} {{ typeof iif . meta mark; size {_ELEMENTS}; flags dynamic; }}",
        f"set {by_interface} {{ typeof iif . ether saddr . meta mark; size {_ELEMENTS}; flags dynamic; }}",
        "chain of_network {",
        *_counted(by_network, "iif", networks),
        "}",
        "chain of_interface {",
        *_counted(by_interface, "iif . ether saddr", interfaces),
        "}",
        "chain from_guest {",
        "meta mark set 0",
        f"{is_first} jump of_interface",
        f"{is_first} jump of_network",
        "}",
        "chain prerouting {",
        # Tracked, and not yet seen by rules of the operator.
        "type filter hook prerouting priority -190; policy accept;",
        f"meta mark {_MARK} goto from_guest",
        f'iifname "{UPLINK}*" {is_first} jump of_network',
        "}",
        "}",
        f"table bridge {TABLE} {{",
        "chain prerouting {",
        "type filter hook prerouting priority -300; policy accept;",
        f'iifname "tap*" meta mark set {_MARK}',
        "}",
        # Where the host does not filter frames of bridges by their addresses, the mark ends here.
        *(
            f"chain {hook} {{\ntype filter hook {hook} priority -300; policy accept;\nmeta mark {_MARK} meta mark set 0\n}}"
            for hook in ("forward", "input")
        ),
        "}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _sets(size: int) -> dict[str, int]:
    """Returns the limit of a list in the set of networks, and in that of interfaces, by the names of the sets."""
    kinds = (("by_network", OF_A_NETWORK), ("by_interface", OF_AN_INTERFACE))
    limits = [(kind, max(size // share // LISTS, 1)) for kind, share in kinds]
    return {f"{kind}_{limit}": limit for kind, limit in limits}


def _counted(name: str, key: str, limit: int) -> Iterator[str]:
    """Yields what drops a connection if its share is used up. Without a seed, the kernel takes a random one: guests cannot
    choose a list.
    """
    for version in ("ip", "ip6"):
        ends = f"{version} saddr . {version} daddr"
        for protocols, of in (("", f"{ends} . th sport . th dport"), ("!= ", ends)):
            yield (
                f"meta l4proto {protocols}{_WITH_PORTS} add @{name} "
                f"{{ {key} . jhash {of} mod {LISTS} ct count over {limit} }} counter name {DROPPED} drop"
            )


def no_rules() -> str:
    return "".join(f"table {family} {TABLE}\ndelete table {family} {TABLE}\n" for family in ("inet", "bridge"))
