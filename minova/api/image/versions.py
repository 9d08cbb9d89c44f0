"""The version document of the Image API, from which clients read what they may use."""

from typing import Any

from minova.api.http.call import Call

VERSIONS = tuple(f"v2.{minor}" for minor in range(9, -1, -1))


def versions(_: Any, call: Call) -> dict[str, Any]:
    links = [{"rel": "self", "href": call.url("/v2/")}]
    return {
        "versions": [
            {"id": version, "status": "SUPPORTED" if number else "CURRENT", "links": links}
            for number, version in enumerate(VERSIONS)
        ]
    }
