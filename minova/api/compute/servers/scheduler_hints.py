"""Scheduler hints: checks their form. Pure. The filters of the scheduler give them their meaning, unknown hints
included.
"""

import ipaddress
import json
import re
from collections.abc import Callable
from typing import Any

from minova import errors
from minova.api.http.body import check_values
from minova.uuids import canonical_uuid, is_uuid

# Hints with this prefix are internal to the scheduler; users may not send them.
_INTERNAL = "_nova"
_CIDR = re.compile(r"/[0-9a-f.:]+")


def checked_hints(hints: dict[str, Any]) -> dict[str, Any]:
    """Returns the hints for the scheduler. Raises BadRequest, with the hint and its value, if one is malformed."""
    for key, (fits, form) in _FORMS.items():
        if key in hints and not fits(hints[key]):
            text = json.dumps(hints[key])[:255]
            raise errors.BadRequest(f"Invalid input for scheduler hint {key}: {text} is not {form}.")
    return {key: value for key, value in hints.items() if not key.startswith(_INTERNAL)}


def group_of(hints: dict[str, Any]) -> str | None:
    """Returns the id of the requested server group, in its stored form. Raises BadRequest if there are several."""
    group = hints.get("group")
    several = group if isinstance(group, list) else [group]
    if len(several) > 1:
        raise errors.BadRequest("Invalid input for scheduler hint group: a server is in one server group only.")
    return canonical_uuid(several[0]) if several else None


def _is_list_of_uuids(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_uuid, value))


def _is_address(value: Any) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return isinstance(value, str)


def _one_or_more(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: all(map(fits, value)) if isinstance(value, list) else fits(value)


def _is_query(value: Any) -> bool:
    """Whether the value is a list, an object (Nova accepts both), or either as JSON in a string."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
            check_values(value)
        except (ValueError, RecursionError, errors.BadRequest):
            return False
    return isinstance(value, list | dict)


_UUIDS = (_one_or_more(is_uuid), "a UUID, or a list of them")
_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "group": _UUIDS,
    # Nova checks only the values in a list.
    "same_host": (lambda value: isinstance(value, str) or _is_list_of_uuids(value), "a text, or a list of UUIDs"),
    "different_host": _UUIDS,
    "query": (_is_query, "a query in JSON"),
    "target_cell": (lambda value: isinstance(value, str) and 0 < len(value) <= 255, "the name of a cell"),
    "different_cell": (_one_or_more(lambda value: isinstance(value, str)), "the name of a cell, or a list of them"),
    "build_near_host_ip": (_is_address, "an IP address"),
    "cidr": (
        lambda value: isinstance(value, str) and bool(_CIDR.fullmatch(value)),
        "the end of a network, such as /24",
    ),
}
