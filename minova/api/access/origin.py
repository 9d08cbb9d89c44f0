"""Protects against pages in a browser on this host. They can send requests to loopback, but they cannot choose Host and
Origin.
"""

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

import falcon

from minova import errors

_PORTS = {"http": 80, "https": 443}


def is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def require_local_host(request: falcon.Request, listener: str) -> None:
    """Raises Forbidden unless Host is a loopback name or the name of the listener.

    A page can point its own host name to 127.0.0.1 (DNS rebinding), but its browser then sends that name.
    """
    host = host_name(request.get_header("Host") or "")
    if not is_loopback(host) and host != listener.lower():
        raise errors.Forbidden(
            "This service accepts every request without a password, and therefore only those to localhost: the Host header names another host."
        )


def require_own_origin(request: falcon.Request, allowed: Collection[str]) -> None:
    """Raises Forbidden if a page of another origin sends the request (CSRF). Programs send no Origin."""
    origin = request.get_header("Origin")
    if origin is None or origin in allowed:
        return
    if _parsed(origin) != _parsed(f"{request.forwarded_scheme}://{request.forwarded_host}"):
        raise errors.Forbidden("Pages of this origin may not use this service.")


def host_name(header: str) -> str:
    """Returns the name in a Host header, without its port; empty if it is malformed."""
    try:
        return (urlsplit(f"//{header}").hostname or "").removesuffix(".")
    except ValueError:
        return ""


def _parsed(origin: str) -> tuple[str, str, int | None] | None:
    """Returns None for `null` and for a malformed origin: None never equals the origin of this service."""
    try:
        url = urlsplit(origin)
        port = url.port or _PORTS.get(url.scheme)
    except ValueError:
        return None
    return (url.scheme, url.hostname, port) if url.hostname else None
