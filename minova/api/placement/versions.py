"""Placement's microversions, and the version document."""

import re
from typing import Any

import falcon

from minova import errors
from minova.api.http.definition import Route
from minova.api.http.microversions import HEADER, Version, VersionNotSupported, requested, text
from minova.api.placement.call import Answer, Placement, PlacementCall, latest

MIN: Version = (1, 0)
MAX: Version = (1, 39)
_FORM = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")


def negotiate(request: falcon.Request, response: falcon.Response) -> Version:
    """Sets the version headers and returns the version. Raises the errors of `parse`."""
    response.append_header("Vary", HEADER.lower())
    version = parse(request.get_header(HEADER))
    response.set_header(HEADER, f"placement {text(version)}")
    return version


def parse(header: str | None) -> Version:
    """Returns MIN if the header has no entry for Placement.

    Raises BadRequest if the text is not a version, VersionNotSupported if the version is not served.
    """
    last = (requested(header, "placement") or [""])[-1]
    if not last:
        return MIN
    if last == "latest":
        return MAX
    form = _FORM.fullmatch(last)
    if form is None:
        raise errors.BadRequest(f"invalid version string: {last}")
    version = int(form[1]), int(form[2])
    if not MIN <= version <= MAX:
        raise VersionNotSupported(f"Unacceptable version header: {last}")
    return version


def show(placement: Placement, call: PlacementCall) -> Answer:
    version: dict[str, Any] = {
        "id": f"v{text(MIN)}",
        "max_version": text(MAX),
        "min_version": text(MIN),
        "status": "CURRENT",
        "links": [{"rel": "self", "href": ""}],
    }
    return Answer(body={"versions": [version]}, changed=latest([]))


ROUTES: tuple[Route, ...] = (Route(method="GET", path="/", handler=show),)
