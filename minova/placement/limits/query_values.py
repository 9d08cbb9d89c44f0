"""The values of Placement's query strings: resources, traits, aggregates, uuids. Pure."""

import re
from collections.abc import Collection
from typing import NamedTuple

from minova.placement.errors import BadRequest
from minova.uuids import canonical_uuid

# Python rejects numbers of more than 4,300 digits.
_AMOUNT = re.compile(r"[+-]?[0-9]{1,1000}")
_ANY_TRAITS = (1, 39)
_FORBIDDEN_TRAITS = (1, 22)
_MANY_AGGREGATES = (1, 24)
_FORBIDDEN_AGGREGATES = (1, 32)


def read_resources(value: str) -> dict[str, int]:
    """Parses `VCPU:2,MEMORY_MB:1024`. If a class is repeated, the last amount counts."""
    form = "Expected resources query string parameter in form: ?resources=VCPU:2,MEMORY_MB:1024."
    if not value.strip():
        raise BadRequest(f"Badly formed resources parameter. {form} Got: empty string.")
    amounts: dict[str, int] = {}
    for part in value.split(","):
        name, colon, amount = part.partition(":")
        if not colon or ":" in amount:
            raise BadRequest(f"Badly formed resources parameter. {form} Got: {part}.")
        if not _AMOUNT.fullmatch(amount.strip()):
            raise BadRequest(f"Requested resource {name} expected positive integer amount. Got: {amount}.")
        amounts[name] = int(amount)
        if amounts[name] < 1:
            raise BadRequest(f"Requested resource {name} requires amount >= 1. Got: {amount}.")
    return amounts


class SetCondition(NamedTuple):
    """`required`: sets; at least one element of each set must be present. `forbidden`: none of these may be present."""

    required: tuple[frozenset[str], ...]
    forbidden: frozenset[str] = frozenset()


def read_traits(key: str, value: str, version: tuple[int, int]) -> SetCondition:
    """Parses `A,!B`, or `in:A,B` for one set."""
    if value.startswith("in:"):
        return SetCondition((_any_of(key, value, version),))
    names = [name.strip() for name in value.split(",")]
    forbidden = frozenset(name.lstrip("!") for name in names if name.startswith("!"))
    form = "HW_CPU_X86_VMX,!CUSTOM_MAGIC" if version >= _FORBIDDEN_TRAITS else "HW_CPU_X86_VMX,CUSTOM_MAGIC"
    expected = f"Invalid query string parameters: Expected '{key}' parameter value of the form: {form}."
    if "" in names or "" in forbidden:
        raise BadRequest(f"{expected} Got an empty trait in: {value}")
    if forbidden and version < _FORBIDDEN_TRAITS:
        raise BadRequest(f"{expected} Got: {value}")
    return SetCondition(tuple(frozenset([name]) for name in names if not name.startswith("!")), forbidden)


def _any_of(key: str, value: str, version: tuple[int, int]) -> frozenset[str]:
    wrong = f"Invalid query string parameters: '{key}': The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC'"
    if version < _ANY_TRAITS:
        raise BadRequest(f"{wrong} only supported since microversion 1.39. Got: {value}")
    names = frozenset(name.strip() for name in value[3:].split(","))
    if "" in names:
        raise BadRequest(
            f"Invalid query string parameters: Expected '{key}' parameter value of the form: "
            f"in:HW_CPU_X86_VMX,CUSTOM_MAGIC. Got an empty trait in: {value}"
        )
    if any(name.startswith("!") for name in names):
        raise BadRequest(f"{wrong} does not support forbidden traits. Got: {value}")
    return names


def read_aggregates(key: str, values: Collection[str], version: tuple[int, int]) -> SetCondition:
    """Parses `uuid`, `!uuid`, `in:uuid,uuid` or `!in:uuid,uuid`."""
    if len(values) > 1 and version < _MANY_AGGREGATES:
        raise BadRequest(f"Multiple {key} parameters are not supported")
    required = []
    forbidden: frozenset[str] = frozenset()
    for value in values:
        negative, names = value.startswith("!"), _aggregates(value)
        if negative and version < _FORBIDDEN_AGGREGATES:
            raise BadRequest(f"Forbidden {key} parameters are not supported in the specified microversion")
        if negative:
            forbidden |= names
        else:
            required.append(names)
    return SetCondition(tuple(required), forbidden)


def _aggregates(value: str) -> frozenset[str]:
    plain = value.removeprefix("!")
    if "," in plain and not plain.startswith("in:"):
        raise BadRequest(
            "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword using the valid "
            f"microversion. Got: {value}"
        )
    names = plain[3:].split(",") if plain.startswith("in:") else [plain]
    return frozenset(_aggregate(name) for name in names)


def _aggregate(name: str) -> str:
    uuid = canonical_uuid(name.strip())
    if uuid is None:
        raise BadRequest(
            f"Invalid query string parameters: Expected 'member_of' parameter to contain valid UUID(s). Got: {name}"
        )
    return uuid


def read_uuid(key: str, value: str) -> str:
    uuid = canonical_uuid(value.strip())
    if uuid is None:
        raise BadRequest(
            f"Invalid query string parameters: Expected '{key}' parameter to be a format of uuid. Got: {value}"
        )
    return uuid
