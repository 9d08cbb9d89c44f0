"""Consoles of guests: their types, the addresses at which hypervisors serve them, and what a token opens. Pure."""

import ipaddress
from enum import StrEnum
from typing import Annotated

import msgspec

from minova import errors
from minova.objects.hosts.bounds import Line


class ConsoleType(StrEnum):
    """The supported types. OpenStack knows further ones."""

    NOVNC = "novnc"
    SERIAL = "serial"


_ENABLED_BY = {ConsoleType.NOVNC: "vnc", ConsoleType.SERIAL: "serial_console"}


def unavailable(console_type: ConsoleType) -> errors.ConsoleTypeUnavailable:
    """For a guest that has no such console."""
    return errors.ConsoleTypeUnavailable(
        f"Unavailable console type {console_type}. It needs [{_ENABLED_BY[console_type]}] enabled = true on the host of the server, and after "
        "that a hard reboot of the server."
    )


class ConsoleAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The address at which a proxy reaches the console of a running guest."""

    host: Line
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)]


class ConsoleGrant(msgspec.Struct, frozen=True, kw_only=True):
    """The console that a token opens.

    `host`: the compute that reports the console's address. `addresses`: the recorded addresses of that host, in their
    canonical form.
    """

    instance_uuid: str
    console_type: ConsoleType
    host: str
    addresses: tuple[str, ...] = ()


def canonical_address(text: str) -> str | None:
    """Returns the canonical form of an address that a proxy may connect to.

    Returns None for a name, which may resolve to another address tomorrow, and for an address that does not belong to
    one machine, such as 0.0.0.0.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_unspecified or address.is_multicast or str(address) == "255.255.255.255":
        return None
    return str(address)


def is_loopback(address: str) -> bool:
    """`address`: in canonical form."""
    return ipaddress.ip_address(address).is_loopback
