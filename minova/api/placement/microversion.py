"""Placement's microversions: which is asked for, and what the answer says of it."""

import re
from typing import TypeAlias

import falcon

from minova import errors

Version: TypeAlias = tuple[int, int]

MIN: Version = (1, 0)
MAX: Version = (1, 39)
HEADER = "OpenStack-API-Version"
_FORM = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")


class NotServed(errors.MinovaError):
    """A version outside of MIN and MAX."""

    code = 406


def text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def negotiate(request: falcon.Request, response: falcon.Response) -> Version:
    """Sets the answer's headers. BadRequest: no version at all; NotServed: one that there is not."""
    response.append_header("Vary", HEADER.lower())
    version = parse(request.get_header(HEADER))
    response.set_header(HEADER, f"placement {text(version)}")
    return version


def parse(header: str | None) -> Version:
    """Entries are `service version`, with commas between them; without one of placement it is MIN."""
    asked = ""
    for entry in (header or "").split(","):
        service, _, version = entry.strip().partition(" ")
        if service.lower() == "placement":
            asked = version.strip()
    if not asked:
        return MIN
    if asked == "latest":
        return MAX
    form = _FORM.fullmatch(asked)
    if form is None:
        raise errors.BadRequest(f"invalid version string: {asked}")
    found = int(form[1]), int(form[2])
    if not MIN <= found <= MAX:
        raise NotServed(f"Unacceptable version header: {asked}")
    return found
