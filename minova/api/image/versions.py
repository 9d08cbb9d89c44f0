"""The version document of the Image API, from which clients read what they may use."""

from typing import Any

from minova.api.http.call import Call

# Glance's later versions promise import, members and stores, which are not served.
VERSION = "v2.0"


def versions(_: Any, call: Call) -> dict[str, Any]:
    links = [{"rel": "self", "href": call.url("/v2/")}]
    return {"versions": [{"id": VERSION, "status": "CURRENT", "links": links}]}
