"""Compute microversions: which are asked for, and which are served (the first only, so far)."""

import re

import falcon

from minova import errors

MIN = MAX = "2.1"
OLD_HEADER = "X-OpenStack-Nova-API-Version"
HEADER = "OpenStack-API-Version"
_FORM = re.compile(r"([1-9]\d{0,3})\.(0|[1-9]\d{0,3})")


class NotServed(errors.MinovaError):
    code = 406


def negotiate(request: falcon.Request, response: falcon.Response) -> None:
    """Sets the answer's headers; NotServed or BadRequest for a version that cannot be."""
    response.append_header("Vary", f"{HEADER}, {OLD_HEADER}")
    response.set_header(HEADER, f"compute {MAX}")
    response.set_header(OLD_HEADER, MAX)
    check(asked(request.get_header(HEADER), request.get_header(OLD_HEADER)))


def asked(new: str | None, old: str | None) -> str:
    """`new` names services: `compute 2.1`, several with commas; `old` is Nova's own. Neither: the first version."""
    for entry in (new or "").split(","):
        service, _, version = entry.strip().partition(" ")
        if service.lower() in ("compute", "nova"):
            return version.strip()
    return (old or "").strip() or MIN


def check(version: str) -> None:
    if version.lower() == "latest":
        return
    form = _FORM.fullmatch(version)
    if form is None:
        raise errors.BadRequest(f"'{version}' is no API version: it must look like 2.1, or be 'latest'.")
    if version != MIN:
        raise NotServed(f"Version {version} is not supported by the API. Minimum is {MIN} and maximum is {MAX}.")
