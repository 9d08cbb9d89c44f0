"""The IPv4 routes of this host: addresses that reachable networks must not use."""

import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from minova.objects.network.addresses import Block, is_within

# Where the kernel shows the network namespace of this process.
PROC_NET = Path("/proc/net")
# Names made by `objects.vif.bridge_name`.
_OWN_BRIDGE = re.compile(r"^mn[0-9a-f]{12}$")
_LOCAL = re.compile(r"\|-- (\S+)\n\s+/32 host LOCAL")


class KernelRoute(msgspec.Struct, frozen=True, kw_only=True):
    """A route of the host. If `interface` is empty, it is an address of the host."""

    destination: str
    interface: str = ""

    def __str__(self) -> str:
        if not self.interface:
            return f"the address {self.destination} of this host"
        return f"{self.destination}, to which this host has a route by {self.interface}"


def routes_of_host(proc_net: Path = PROC_NET) -> tuple[KernelRoute, ...]:
    """Returns the routes of the kernel's main table without the default route, and the host's addresses; not those of
    local networks of earlier releases. `proc_net` shows the network namespace.
    """
    all_routes = list(routes_in(_routes(proc_net)))
    own = [ipaddress.ip_network(route.destination) for route in all_routes if _OWN_BRIDGE.match(route.interface)]
    addresses = map(_address, addresses_in(_trie(proc_net), own))
    return (*(route for route in all_routes if not _OWN_BRIDGE.match(route.interface)), *addresses)


def ranges_in_use() -> tuple[KernelRoute, ...]:
    """Returns the routes of `routes_of_host` and those of local networks."""
    return (*routes_in(_routes(PROC_NET)), *map(_address, addresses_in(_trie(PROC_NET), [])))


def _address(text: str) -> KernelRoute:
    return KernelRoute(destination=text)


def _routes(proc_net: Path) -> list[str]:
    return _text(proc_net / "route").splitlines()


def _trie(proc_net: Path) -> str:
    return _text(proc_net / "fib_trie")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except FileNotFoundError:  # a kernel without it
        return ""


def routes_in(lines: Sequence[str]) -> Iterable[KernelRoute]:
    """Parses `/proc/net/route`: a line of titles, then lines with interface, destination, ..., mask in hexadecimal."""
    for line in lines[1:]:
        interface, destination, *_ = fields = line.split()
        mask = int(fields[7], 16)
        if mask:
            network = f"{_dotted(int(destination, 16))}/{_dotted(mask)}"
            yield KernelRoute(destination=str(ipaddress.ip_network(network, strict=False)), interface=interface)


def _dotted(number: int) -> str:
    """Returns the address in dotted form. The kernel prints the number in memory order (little-endian)."""
    return socket.inet_ntoa(number.to_bytes(4, "little"))


def addresses_in(trie: str, without: Sequence[Block]) -> list[str]:
    """Parses the addresses in `/proc/net/fib_trie`, except those in the ranges `without`."""
    local_addresses = sorted(set(_LOCAL.findall(trie)))
    return [address for address in local_addresses if not is_within(ipaddress.ip_network(address), without)]


def overlapping(cidr: str, routes: Iterable[KernelRoute]) -> KernelRoute | None:
    """Returns the first route to addresses of the range, or None."""
    block = ipaddress.ip_network(cidr)
    return next((route for route in routes if block.overlaps(ipaddress.ip_network(route.destination))), None)
