"""The microversions of the Compute API, and the version documents."""

import re
from typing import Any

import falcon

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.microversions import FIELDS, HEADER, Version, VersionNotSupported, requested, text
from minova.api.image import versions as image_versions

MIN: Version = (2, 1)
# The newest microversion of Nova 34.
MAX: Version = (2, 104)
# Nova's own header, older than the header of all OpenStack APIs.
OLD_HEADER = "X-OpenStack-Nova-API-Version"
UPDATED = "2013-07-23T11:33:21Z"  # the day that Nova gives for v2.1
MEDIA = "application/vnd.openstack.compute+json;version=2.1"
REFERENCE = "http://docs.openstack.org/"  # as in Nova
_FORM = re.compile(r"([1-9]\d{0,3})\.(0|[1-9]\d{0,3})")


def negotiate(request: falcon.Request, response: falcon.Response) -> Version:
    """Sets the version headers and returns the version. The headers of a refused request name the newest version.

    Raises the errors of `parse`.
    """
    response.append_header("Vary", f"{HEADER}, {OLD_HEADER}, {FIELDS}")
    _name(response, MAX)
    version = parse(requested_version(request.get_header(HEADER), request.get_header(OLD_HEADER)))
    _name(response, version)
    return version


def _name(response: falcon.Response, version: Version) -> None:
    response.set_header(HEADER, f"compute {text(version)}")
    response.set_header(OLD_HEADER, text(version))


def requested_version(header: str | None, old_header: str | None) -> str:
    """Returns the requested version; the first version if neither header has an entry for Compute."""
    versions = requested(header, "compute", "nova")
    return versions[0] if versions else (old_header or "").strip() or text(MIN)


def parse(version: str) -> Version:
    """Raises BadRequest if the text is not a version, VersionNotSupported if the version is not served."""
    if version.lower() == "latest":
        return MAX
    form = _FORM.fullmatch(version)
    if form is None:
        raise errors.BadRequest(
            f"API Version String {version[:64]} is of invalid format. Must be of format MajorNum.MinorNum."
        )
    parsed_version = int(form[1]), int(form[2])
    if not MIN <= parsed_version <= MAX:
        raise VersionNotSupported(
            f"Version {version} is not supported by the API. Minimum is {text(MIN)} and maximum is {text(MAX)}."
        )
    return parsed_version


def _document(call: Call) -> dict[str, Any]:
    return {
        "id": "v2.1",
        "status": "CURRENT",
        "version": text(MAX),
        "min_version": text(MIN),
        "updated": UPDATED,
        "links": [{"rel": "self", "href": call.url("/v2.1/")}],
    }


def _first_document(call: Call) -> dict[str, Any]:
    """Nova's v2.0, which has no microversions. Clients expect it as the first version. Its other paths are not served:
    `/v2/` is the Image API.
    """
    return {
        "id": "v2.0",
        "status": "SUPPORTED",
        "version": "",
        "min_version": "",
        "updated": "2011-01-21T11:33:21Z",
        "links": [{"rel": "self", "href": call.url("/v2.0/")}],
    }


def versions(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return {"versions": [_first_document(call), _document(call)]}


def version(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return _detailed(_document(call), MEDIA)


def first_version(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return _detailed(_first_document(call), MEDIA.replace("2.1", "2"))


def _detailed(document: dict[str, Any], media: str) -> dict[str, Any]:
    links = [*document["links"], {"rel": "describedby", "type": "text/html", "href": REFERENCE}]
    return {"version": document | {"links": links, "media-types": [{"base": "application/json", "type": media}]}}


def identity(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """The version document of Identity 3, which OpenStack's clients read before they list servers. No other part of
    Identity is served.
    """
    return {
        "version": {
            "id": "v3.14",
            "status": "stable",
            "updated": "2020-04-07T00:00:00Z",
            "links": [{"rel": "self", "href": call.url("/v3/")}],
            "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}],
        }
    }


ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/", handler=versions),
    Route(method="GET", path="/compute", handler=versions),
    Route(method="GET", path="/v2.0", handler=first_version),
    Route(method="GET", path="/v2.1", handler=version),
    Route(method="GET", path="/v3", handler=identity),
    Route(method="GET", path="/versions", handler=image_versions.versions),
)
