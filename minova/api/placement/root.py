"""The version document."""

from typing import Any

from minova.api.placement import microversion
from minova.api.placement.call import Answer, Call, Placement, latest


def show(placement: Placement, call: Call) -> Answer:
    lowest = microversion.text(microversion.MIN)
    version: dict[str, Any] = {
        "id": f"v{lowest}",
        "max_version": microversion.text(microversion.MAX),
        "min_version": lowest,
        "status": "CURRENT",
        "links": [{"rel": "self", "href": ""}],
    }
    return Answer(body={"versions": [version]}, changed=latest([]))
