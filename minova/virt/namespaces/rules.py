"""The packet rules of networks, as text for `nft`: what may pass; all else is dropped.

A text replaces the rules of the table of the same name in one step. There are three: one in the namespace of each network, and
two in the host for all of them, of which the one for bridges changes with each guest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from minova.objects.guests.guest_metadata import ADDRESS, PORT
from minova.objects.network.addresses import link_local
from minova.virt.namespaces.network import GUESTS, HOST, LINK, UPLINK, GuestInterface, LocalNetwork, NetworkRecord
from minova.virt.namespaces.network import PORT as INTO_BRIDGE

TABLE = "minova"
# The most connections that one interface has to the metadata service, whatever its addresses. More are refused.
CONNECTIONS_OF_A_PORT = 64
# The most TCP connections that the resolver of a network has to the one of the host, which takes a number of them from all networks.
# Each is there for as long as a guest keeps its own.
CONNECTIONS_OF_A_RESOLVER = 4
# Interfaces of a network that have such connections at one time: more than it may have connections. The kernel makes room for
# so many at once.
_ASKING = 512
# To so many addresses the namespace sends within so many seconds. Each has an entry in the kernel's table of neighbours, which all
# networks of the host share, and a guest may ask from any address.
_NEIGHBOURS, _NEIGHBOUR_SECONDS = 512, 120
_LINK_LOCAL = "169.254.0.0/16"


def of_network(record: NetworkRecord) -> str:
    """Returns the rules in the namespace of a network. They keep the sets `asking` and `resolving` with their counts: new sets would let
    each interface, and the resolver, have their connections once more.
    """
    network = record.network
    every, routed = (
        [each.cidr for each in part]
        for part in (network.routed_subnets + network.linked_subnets, network.routed_subnets)
    )
    gateways = [each.gateway for each in network.routed_subnets]
    servers = [*gateways, *([ADDRESS] if network.linked_subnets else [])]
    host = f"iifname {HOST} ip saddr {record.host_end}"
    incoming = ["iifname lo accept", "ct state established,related accept"]
    asking = f"set asking {{ type ether_addr; flags dynamic; size {_ASKING}; }}"
    if every:
        guest = f"iifname {GUESTS} ip saddr {_set(every)}"
        asks = f"{guest} ip daddr {ADDRESS} tcp dport {PORT}"
        too_many = f"add @asking {{ ether saddr ct count over {CONNECTIONS_OF_A_PORT} }} reject with tcp reset"
        incoming += [
            f"iifname {GUESTS} udp sport 68 udp dport 67 accept",
            f"{guest} ip daddr {_set(servers)} meta l4proto {{ tcp, udp }} th dport 53 accept",
            f"{guest} ip daddr {_set(servers)} icmp type echo-request accept",
            *([f"{asks} ct state new {too_many}", f"{asks} accept"] if network.metadata else []),
        ]
    if network.six:
        incoming += _incoming6(network)
    forwarded = ["ct state established,related accept"]
    if routed:
        forwarded += [f"iifname {GUESTS} ip saddr {_set(routed)} oifname {HOST} ip daddr != {_LINK_LOCAL} accept"]
    if routed and network.reachable:
        incoming += [f"{host} ip daddr {_set(gateways)} icmp type echo-request accept"]
        forwarded += [f"{host} oifname {GUESTS} ip daddr {_set(routed)} accept"]
    asks = f"oifname {HOST} ip daddr {record.host_end} tcp dport 53 ct state new"
    too_many = f"add @resolving {{ ip daddr ct count over {CONNECTIONS_OF_A_RESOLVER} }} reject with tcp reset"
    # The guests of a reachable network see their gateway in place of the host, whose link-local address they could not
    # answer.
    translated = [f"oifname {HOST} masquerade", f"iifname {HOST} oifname {GUESTS} masquerade"]
    return f"table inet {TABLE}\nflush table inet {TABLE}\n" + _declared(
        "inet",
        asking,
        "set resolving { type ipv4_addr; flags dynamic; size 2; }",
        *_neighbours(network),
        _chain("input", "filter hook input priority filter; policy drop;", incoming),
        _chain("forward", "filter hook forward priority filter; policy drop;", forwarded),
        _chain("output", "filter hook output priority filter; policy accept;", [f"{asks} {too_many}"]),
        _chain("postrouting", "nat hook postrouting priority srcnat;", translated),
    )


def _neighbours(network: LocalNetwork) -> Iterator[str]:
    """Yields what bounds the addresses of guests to which the namespace sends."""
    # The kernel gives up entries of groups before others, and asks for each new neighbour by a group: they take no place here.
    rules = [f"oifname {GUESTS} ip daddr {{ 224.0.0.0/4, 255.255.255.255 }} accept"]
    if network.six:
        rules.append(f"oifname {GUESTS} ip6 daddr ff00::/8 accept")
    for number, family in ((4, "ip"), *([(6, "ip6")] if network.six else [])):
        name = f"neighbours{number}"
        yield f"set {name} {{ type ipv{number}_addr; flags dynamic,timeout; timeout {_NEIGHBOUR_SECONDS}s; size {_NEIGHBOURS}; }}"
        rules.append(f"oifname {GUESTS} update @{name} {{ {family} daddr }} accept")
    yield "counter dropped_neighbours { }"
    rules.append(f"oifname {GUESTS} counter name dropped_neighbours drop")
    yield _chain("neighbours", "filter hook postrouting priority filter;", rules)


def _incoming6(network: LocalNetwork) -> Iterator[str]:
    """Yields what guests may ask by IPv6. Advertisements and redirects of others are none of it."""
    sources = _set(["fe80::/10", *(each.cidr for each in network.six)])
    guest = f"iifname {GUESTS} ip6 saddr {sources}"
    types = "nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert"
    yield f"iifname {GUESTS} icmpv6 type {{ {types} }} accept"
    yield f"{guest} icmpv6 type echo-request accept"
    yield f"{guest} udp sport 546 udp dport 547 accept"
    yield f"{guest} meta l4proto {{ tcp, udp }} th dport 53 accept"


def of_host(records: Iterable[NetworkRecord], zones: Mapping[str, int]) -> str:
    """Returns the rules of the host. `zones`: zones of connection tracking of other bridges."""
    records = sorted(records, key=lambda record: record.index)
    bridges = {record.network.bridge: record.zone for record in records if not record.network.over}
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
    arp = _table("arp", _chain("input", "filter hook input priority filter; policy accept;", closed))
    return rules + arp


def of_bridges(records: Iterable[NetworkRecord]) -> str:
    """Returns what may pass bridges: the guests of this host get answers of DHCP, and advertisements, from the namespace of
    their network alone, and ask it for DHCP and for metadata as themselves. On a bridge of the host the namespace reaches
    guests of its network, and nothing else reaches it: neither the host, nor the physical network.
    """
    records = sorted(records, key=lambda record: record.index)
    forwarded: list[str] = []
    four: list[str] = []
    six: list[str] = []
    hidden: list[str] = []
    clients: list[str] = []
    clients6: list[str] = []
    askers: list[str] = []
    for record in records:
        network, taps = record.network, record.taps
        if network.has_dhcp4:
            four += taps
            clients += (_client(network.port, host) for host in record.hosts)
        if network.six:
            six += taps
            clients6 += (_client6(network.port, host) for host in record.hosts)
        askers += _askers(record)
        if network.over:
            hidden.append(network.port)
            forwarded += _around(network.port, taps)
    forwarded += _foreign_answers(four, six)
    if clients:
        forwarded.append(f'oifname "{INTO_BRIDGE}*" udp dport 67 jump clients')
    if clients6:
        # A first fragment may end before the ports.
        forwarded.append(f'oifname "{INTO_BRIDGE}*" exthdr frag exists drop')
        forwarded.append(f'oifname "{INTO_BRIDGE}*" udp dport 547 jump clients6')
    if askers:
        forwarded.append(f'oifname "{INTO_BRIDGE}*" ip daddr {ADDRESS} jump askers')
    if not forwarded:
        return f"table bridge {TABLE}\ndelete table bridge {TABLE}\n"
    return _table(
        "bridge",
        "\n".join(["chain clients {", *clients, "drop", "}"]),
        "\n".join(["chain clients6 {", *clients6, "drop", "}"]),
        "\n".join(["chain askers {", *askers, "}"]),
        _chain("forward", "filter hook forward priority filter - 10; policy accept;", forwarded),
        *(_apart(hook, side, hidden) for hook, side in (("input", "iifname"), ("output", "oifname"))),
    )


def _foreign_answers(four: Sequence[str], six: Sequence[str]) -> Iterator[str]:
    """Yields what drops answers of DHCP and advertisements to these guests that are not from the namespace of their network."""
    others = f'iifname != "{INTO_BRIDGE}*"'  # of a bridge, only the namespace of its network has such a port
    if four:
        yield f"{others} oifname {_names(four)} udp sport 67 udp dport 68 drop"
    if six:
        yield f"{others} oifname {_names(six)} icmpv6 type {{ nd-router-advert, nd-redirect }} drop"
        yield f"{others} oifname {_names(six)} udp sport 547 udp dport 546 drop"


def _apart(hook: str, side: str, ports: Sequence[str]) -> str:
    """Returns the chain that keeps ports on bridges of the host apart from the host itself."""
    rules = [f"{side} {_names(ports)} drop"] if ports else []
    return _chain(hook, f"filter hook {hook} priority filter - 10; policy accept;", rules)


def _askers(record: NetworkRecord) -> Iterator[str]:
    """Yields what lets no guest ask for metadata from the MAC address of another interface: its connections are counted by
    it.
    """
    if record.network.metadata:
        for host in record.hosts:
            if host.tap:
                yield f'oifname "{record.network.port}" iifname "{host.tap}" ether saddr != {host.mac} drop'


def _client(port: str, host: GuestInterface) -> str:
    """Returns what lets a message of DHCP pass to the port of its network's namespace if its client (`chaddr`) is the
    interface that has sent it. A fragment that is too short to have a client does not pass.
    """
    return f"{_sender(port, host)}@th,288,48 0x{host.mac.replace(':', '')} return"


def _client6(port: str, host: GuestInterface) -> str:
    """Returns what lets a message of DHCPv6 pass to that port if it is a request of the interface that has sent it: the
    server finds the MAC address of a client by its link-local address. A release and a decline end the lease of the
    identifier that they name, which may be another guest's; without them leases end by themselves. A relay names any client.
    """
    types = "{ 1, 3, 4, 5, 6, 11 }"  # solicit, request, confirm, renew, rebind, information-request
    return f"{_sender(port, host)}ip6 saddr {link_local(host.mac)} @th,64,8 {types} return"


def _sender(port: str, host: GuestInterface) -> str:
    device = f'iifname "{host.tap}" ' if host.tap else ""  # earlier releases did not note the device
    return f'oifname "{port}" {device}'


def _around(port: str, taps: Sequence[str]) -> Iterator[str]:
    """Yields what keeps the port of a namespace on a bridge of the host apart from all but these guests."""
    if not taps:
        yield from (f'{side} "{port}" drop' for side in ("iifname", "oifname"))
        return
    guests = _names(taps)
    yield f'iifname "{port}" oifname != {guests} drop'
    yield f'oifname "{port}" iifname != {guests} drop'
    # No other server need hear them, and reserve addresses.
    for client, server in ((68, 67), (546, 547)):
        yield f'iifname {guests} oifname != "{port}" udp sport {client} udp dport {server} drop'


def _names(interfaces: Iterable[str]) -> str:
    return _set(f'"{name}"' for name in interfaces)


def no_rules() -> str:
    """Returns what removes the rules of the host, without those of bridges."""
    return "".join(f"table {family} {TABLE}\ndelete table {family} {TABLE}\n" for family in ("inet", "arp"))


def _table(family: str, *parts: str) -> str:
    return f"table {family} {TABLE}\ndelete table {family} {TABLE}\n{_declared(family, *parts)}"


def _declared(family: str, *parts: str) -> str:
    body = "\n".join(parts)
    return f"table {family} {TABLE} {{\n{body}\n}}\n"


def _chain(name: str, head: str, rules: Iterable[str]) -> str:
    return "\n".join([f"chain {name} {{", f"type {head}", *rules, "}"])


def _set(members: Iterable[str]) -> str:
    return f"{{ {', '.join(members)} }}"
