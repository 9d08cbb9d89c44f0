"""Addresses of clients: their own, or what a trusted proxy says of them."""

import ipaddress
from collections.abc import Sequence
from typing import Any

from minova import errors

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Read where the peer is a trusted proxy, and else gone. `Forwarded` is never read: proxies hand on a client's own.
FROM_PROXIES = (
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_FORWARDED_PORT",
    "HTTP_X_FORWARDED_PREFIX",
    "HTTP_X_REAL_IP",
)


def network_of(address: str) -> str:
    """Addresses that one client has at its will count as one: the /64 of an IPv6 address."""
    parsed = _parse(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((parsed, 64), strict=False))
    return address if parsed is None else str(parsed)


def client_address(peer: str, forwarded_for: str, trusted: Sequence[Network]) -> str:
    """The address of the client: `peer`, or behind trusted proxies what the outermost of them has written into X-Forwarded-For.

    What stands left of that, a client may have written itself.
    """
    found = _parse(peer)
    if found is None:
        return peer
    for part in reversed(forwarded_for.split(",")):
        if not any(found in network for network in trusted):
            break
        parsed = _parse(part.strip())
        if parsed is None:
            break
        found = parsed
    return str(found)


def in_networks(address: str, networks: Sequence[Network]) -> bool:
    found = _parse(address)
    return found is not None and any(found in network for network in networks)


def drop_forged(env: dict[str, Any], trusted: Sequence[Network]) -> None:
    """Removes from a WSGI environment what a client may have written itself of its address, or of the server's."""
    env.pop("HTTP_FORWARDED", None)
    if not in_networks(env.get("REMOTE_ADDR", ""), trusted):
        for name in FROM_PROXIES:
            env.pop(name, None)


def parse_networks(option: str, values: Sequence[str]) -> tuple[Network, ...]:
    """Raises InvalidConfiguration with the option."""
    try:
        return tuple(ipaddress.ip_network(value) for value in values)
    except ValueError as error:
        raise errors.InvalidConfiguration(f"{option}: {error}") from None


def _parse(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An IPv4 address inside an IPv6 one is that IPv4 address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    return (parsed.ipv4_mapped or parsed) if isinstance(parsed, ipaddress.IPv6Address) else parsed
