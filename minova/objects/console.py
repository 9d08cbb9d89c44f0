"""Consoles of guests: their kinds, where a hypervisor serves them, and what a token opens. Pure."""

import ipaddress
from enum import StrEnum

import msgspec


class ConsoleType(StrEnum):
    """The kinds that are served. OpenStack knows further ones."""

    NOVNC = "novnc"
    SERIAL = "serial"


class ConsoleAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a proxy reaches the console of a guest that runs."""

    host: str
    port: int


class ConsoleGrant(msgspec.Struct, frozen=True, kw_only=True):
    """What a token opens.

    `host`: the compute that says where the console is. `addresses`: those that are recorded for it, in their canonical form.
    """

    instance_uuid: str
    console_type: ConsoleType
    host: str
    addresses: tuple[str, ...] = ()


def canonical_address(text: str) -> str | None:
    """The one spelling of an address that a proxy may connect to.

    None: a name, which may stand for another address tomorrow, or an address that is not one machine's, such as 0.0.0.0.
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
    """Of a canonical address."""
    return ipaddress.ip_address(address).is_loopback
