"""Whether minova-api may fetch from an address that a user gives.

A user could give an address that only the controller reaches: its own loopback, a metadata service, the management
network. Therefore a name is resolved once, each of its addresses is checked, and the connection goes to a checked
address, even if the name resolves to another one by then.
"""

import ipaddress
import socket
from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from oslo_config import cfg

from minova import errors
from minova.api.access.addresses import parse_networks

PORTS = {"http": 80, "https": 443}
# IPv6 addresses of this prefix have an IPv4 address in their last 32 bits.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Networks = Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]
Resolve = Callable[[str, int], Sequence[str]]


class ImportRefused(errors.BadRequest):
    """The text does not give the reason: that would reveal what is in the controller's networks."""

    def __init__(self, uri: str) -> None:
        super().__init__(f"URI for web-download does not pass filtering: {uri[:2048]}")


class ConnectionTarget(NamedTuple):
    """The target of a connection.

    `host`: as in the URL.
    `address`: a checked address.
    `target`: path and query.
    """

    scheme: str
    host: str
    port: int
    address: str
    target: str


def addresses_of(host: str, port: int) -> Sequence[str]:
    """Returns all addresses of the host's name. Raises OSError if there are none."""
    return [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def checked(conf: cfg.ConfigOpts, uri: str, resolve: Resolve = addresses_of) -> ConnectionTarget:
    """Raises ImportRefused if the URI may not be fetched."""
    options = conf.import_filtering_opts
    try:
        parts = urlsplit(uri)
        host, port = (parts.hostname or "").rstrip("."), parts.port or PORTS.get(parts.scheme, 0)
    except ValueError:
        raise ImportRefused(uri) from None
    target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    is_plain = uri.isascii() and uri.isprintable() and " " not in uri and "@" not in parts.netloc and "\\" not in uri
    if not is_plain or not host or len(uri) > 2048:
        raise ImportRefused(uri)
    if parts.scheme not in options.allowed_schemes or port not in options.allowed_ports:
        raise ImportRefused(uri)
    if host in options.disallowed_hosts or (options.allowed_hosts and host not in options.allowed_hosts):
        raise ImportRefused(uri)
    try:
        addresses = resolve(host, port)
    except (OSError, UnicodeError):
        raise ImportRefused(uri) from None
    networks = allowed_networks(conf)
    # One refused address refuses the name: a name with both kinds of addresses is an attempt to deceive.
    if not addresses or not all(may_connect(text, networks) for text in addresses):
        raise ImportRefused(uri)
    return ConnectionTarget(parts.scheme, host, port, addresses[0], target)


def allowed_networks(conf: cfg.ConfigOpts) -> Networks:
    """Raises InvalidConfiguration if one of the networks is invalid."""
    return tuple(
        parse_networks("[import_filtering_opts] allowed_networks", conf.import_filtering_opts.allowed_networks)
    )


def may_connect(text: str, networks: Networks = ()) -> bool:
    """Whether an address is public, or in one of these networks."""
    try:
        address = _innermost(ipaddress.ip_address(text))
    except ValueError:
        return False
    if any(address in network for network in networks):
        return True
    if isinstance(address, ipaddress.IPv6Address) and address.is_site_local:
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _innermost(address: Address) -> Address:
    """Returns the IPv4 address that is embedded in an IPv6 address, else the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None) or address
