"""The addresses of clients: the address of the peer, or the address that a trusted proxy reports."""

import ipaddress
from collections.abc import Sequence
from typing import Any

from minova import errors

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Headers that are kept if the peer is a trusted proxy, and removed otherwise. `Forwarded` is always removed: proxies
# pass on the one that the client sent.
FROM_PROXIES = (
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_FORWARDED_PORT",
    "HTTP_X_FORWARDED_PREFIX",
    "HTTP_X_REAL_IP",
)


def network_of(address: str) -> str:
    """Returns what an address is counted as. All IPv6 addresses of a /64 count as one, because one client can use them
    all.
    """
    parsed = _parse(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((parsed, 64), strict=False))
    return address if parsed is None else str(parsed)


def client_address(peer: str, forwarded_for: str, trusted: Sequence[Network]) -> str:
    """Returns the address of the client: `peer`, or behind trusted proxies the address that the outermost of them has
    written into X-Forwarded-For.

    The client itself may have written the entries to the left of that address.
    """
    address = _parse(peer)
    if address is None:
        return peer
    for part in reversed(forwarded_for.split(",")):
        if not any(address in network for network in trusted):
            break
        parsed = _parse(part.strip())
        if parsed is None:
            break
        address = parsed
    return str(address)


def in_networks(address: str, networks: Sequence[Network]) -> bool:
    parsed_address = _parse(address)
    return parsed_address is not None and any(parsed_address in network for network in networks)


def drop_forged(env: dict[str, Any], trusted: Sequence[Network]) -> None:
    """Removes the headers from a WSGI environment in which a client may forge its own address or the
    server's address.
    """
    env.pop("HTTP_FORWARDED", None)
    if not in_networks(env.get("REMOTE_ADDR", ""), trusted):
        for name in FROM_PROXIES:
            env.pop(name, None)


def parse_networks(option: str, values: Sequence[str]) -> tuple[Network, ...]:
    """Raises InvalidConfiguration, which names the option, if a value is no network."""
    try:
        return tuple(ipaddress.ip_network(value) for value in values)
    except ValueError as error:
        raise errors.InvalidConfiguration(f"{option}: {error}") from None


def _parse(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Returns None if the address is malformed. An IPv4-mapped IPv6 address becomes the IPv4 address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    return (parsed.ipv4_mapped or parsed) if isinstance(parsed, ipaddress.IPv6Address) else parsed
