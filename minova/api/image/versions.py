"""The version document of the Image API, from which clients read the supported versions."""

from typing import Any

from minova.api.http.call import Call
from minova.api.http.definition import Route

# Later versions of Glance promise stores, which are not served.
VERSIONS = tuple(f"v2.{minor}" for minor in range(7, -1, -1))


def versions(_: Any, call: Call) -> dict[str, Any]:
    links = [{"rel": "self", "href": call.url("/v2/")}]
    statuses = ["CURRENT", *["SUPPORTED"] * (len(VERSIONS) - 1)]
    return {
        "versions": [
            {"id": version, "status": status, "links": links}
            for version, status in zip(VERSIONS, statuses, strict=True)
        ]
    }


ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/image", handler=versions, status=300),
    Route(method="GET", path="/v2", handler=versions, status=300),
)
