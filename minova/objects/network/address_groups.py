"""Address groups: ranges that rules of security groups name together."""

import ipaddress
from collections.abc import Collection, Iterable
from datetime import datetime

import msgspec

from minova import errors

# The most ranges of a group: each becomes a rule on the hosts of each port that names the group.
MAX_RANGES_OF_GROUP = 200


class AddressGroup(msgspec.Struct, frozen=True, kw_only=True):
    """`addresses`: ranges of both IP versions, as 192.0.2.0/24 or 192.0.2.1/32."""

    id: str
    name: str = ""
    description: str = ""
    project_id: str
    addresses: tuple[str, ...] = ()
    revision_number: int = 1
    created_at: datetime | None = None
    updated_at: datetime | None = None


def canonical(texts: Iterable[str]) -> tuple[str, ...]:
    """Returns the ranges with their prefix lengths and without the bits of a host, each once. Raises BadRequest."""
    return tuple(dict.fromkeys(_range(text) for text in texts))


def _range(text: str) -> str:
    try:
        block = ipaddress.ip_interface(text).network
    except ValueError:
        raise errors.BadRequest(
            f"Invalid input for addresses. Reason: '{text[:64]}' is not a valid IP subnet."
        ) from None
    if "%" in text:
        raise errors.BadRequest("Invalid input for addresses. Reason: an address has a zone.")
    return str(block)


def of_version(addresses: Iterable[str], ip_version: int) -> tuple[str, ...]:
    return tuple(text for text in addresses if ipaddress.ip_network(text).version == ip_version)


def added(group: AddressGroup, addresses: Collection[str]) -> tuple[str, ...]:
    """Returns the ranges of the group with these. Raises BadRequest if it has one already, or would have too many."""
    duplicates = sorted(set(addresses) & set(group.addresses))
    if duplicates:
        raise errors.AddressesAlreadyExist(f"Addresses {duplicates} already exist in the address group {group.id}.")
    all_addresses = (*group.addresses, *addresses)
    if len(all_addresses) > MAX_RANGES_OF_GROUP:
        raise errors.BadRequest(
            f"Invalid input for addresses. Reason: an address group has {MAX_RANGES_OF_GROUP} at most."
        )
    return all_addresses


def removed(group: AddressGroup, addresses: Collection[str]) -> tuple[str, ...]:
    """Returns the ranges of the group without these. Raises AddressesNotFound if it lacks one."""
    unknown = sorted(set(addresses) - set(group.addresses))
    if unknown:
        raise errors.AddressesNotFound(f"Addresses {unknown} not found in the address group {group.id}.")
    return tuple(text for text in group.addresses if text not in addresses)
