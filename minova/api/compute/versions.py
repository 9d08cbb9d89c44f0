"""The microversions that the Compute API serves (the first only, so far), and the documents that say so."""

import re
from typing import Any

import falcon

from minova import errors
from minova.api.compute.collaborators import Collaborators
from minova.api.http.call import Call
from minova.api.http.microversions import HEADER, Version, VersionNotSupported, requested, text

MIN: Version = (2, 1)
MAX: Version = (2, 1)
# Nova's own header, older than the one of all OpenStack APIs.
OLD_HEADER = "X-OpenStack-Nova-API-Version"
UPDATED = "2013-07-23T11:33:21Z"  # the day that Nova gives for v2.1
MEDIA = "application/vnd.openstack.compute+json;version=2.1"
_FORM = re.compile(r"([1-9]\d{0,3})\.(0|[1-9]\d{0,3})")


def negotiate(request: falcon.Request, response: falcon.Response) -> Version:
    """Sets the version headers, also for a request that is refused. Raises as `parse` does."""
    response.append_header("Vary", f"{HEADER}, {OLD_HEADER}")
    response.set_header(HEADER, f"compute {text(MAX)}")
    response.set_header(OLD_HEADER, text(MAX))
    return parse(requested_version(request.get_header(HEADER), request.get_header(OLD_HEADER)))


def requested_version(header: str | None, old_header: str | None) -> str:
    """Without an entry for Compute in either header: the first version."""
    versions = requested(header, "compute", "nova")
    return versions[0] if versions else (old_header or "").strip() or text(MIN)


def parse(version: str) -> Version:
    """Raises BadRequest for what is no version, VersionNotSupported for one that is not served."""
    if version.lower() == "latest":
        return MAX
    if _FORM.fullmatch(version) is None:
        raise errors.BadRequest(f"'{version}' is no API version: it must look like 2.1, or be 'latest'.")
    if version != text(MIN):
        raise VersionNotSupported(
            f"Version {version} is not supported by the API. Minimum is {text(MIN)} and maximum is {text(MAX)}."
        )
    return MIN


def _document(call: Call) -> dict[str, Any]:
    return {
        "id": "v2.1",
        "status": "CURRENT",
        "version": text(MAX),
        "min_version": text(MIN),
        "updated": UPDATED,
        "links": [{"rel": "self", "href": call.url("/v2.1/")}],
    }


def versions(api: Collaborators, call: Call) -> dict[str, Any]:
    return {"versions": [_document(call)]}


def version(api: Collaborators, call: Call) -> dict[str, Any]:
    return {"version": _document(call) | {"media-types": [{"base": "application/json", "type": MEDIA}]}}
