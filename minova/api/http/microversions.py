"""Microversions in the header that all OpenStack APIs share: `OpenStack-API-Version: compute 2.1, placement 1.39`."""

from typing import TypeAlias

from minova import errors

Version: TypeAlias = tuple[int, int]

LOWEST: Version = (0, 0)
HIGHEST: Version = (9999, 9999)
HEADER = "OpenStack-API-Version"


class VersionNotSupported(errors.MinovaError):
    """A well-formed version that the API does not serve."""

    code = 406


def requested(header: str | None, *services: str) -> list[str]:
    """The versions that the header names for one of `services`, in order."""
    entries = (entry.strip().partition(" ") for entry in (header or "").split(","))
    return [version.strip() for service, _, version in entries if service.lower() in services]


def text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
