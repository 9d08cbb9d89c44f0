"""Version documents: what a client finds before it logs in."""

from typing import Any

from minova.api.http import microversions
from minova.api.http.call import Api, Call

UPDATED = "2013-07-23T11:33:21Z"  # the day that Nova gives for v2.1
MEDIA = "application/vnd.openstack.compute+json;version=2.1"
# Of the Image API, from which clients read what they may use.
IMAGE_VERSIONS = tuple(f"v2.{minor}" for minor in range(9, -1, -1))


def _compute(call: Call) -> dict[str, Any]:
    return {
        "id": "v2.1",
        "status": "CURRENT",
        "version": microversions.MAX,
        "min_version": microversions.MIN,
        "updated": UPDATED,
        "links": [{"rel": "self", "href": call.url("/v2.1/")}],
    }


def compute_versions(api: Api, call: Call) -> dict[str, Any]:
    return {"versions": [_compute(call)]}


def compute_version(api: Api, call: Call) -> dict[str, Any]:
    return {"version": _compute(call) | {"media-types": [{"base": "application/json", "type": MEDIA}]}}


def image_versions(api: Api, call: Call) -> dict[str, Any]:
    links = [{"rel": "self", "href": call.url("/v2/")}]
    return {
        "versions": [
            {"id": version, "status": "SUPPORTED" if number else "CURRENT", "links": links}
            for number, version in enumerate(IMAGE_VERSIONS)
        ]
    }
