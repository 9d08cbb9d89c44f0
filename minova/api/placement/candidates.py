"""/allocation_candidates, with the answer in the format of each microversion."""

from collections.abc import Mapping
from typing import Any

from minova.api.http.definition import Route
from minova.api.http.microversions import Version
from minova.api.placement import answers
from minova.api.placement.call import Answer, Placement, PlacementCall, latest
from minova.placement.candidates import query, search
from minova.placement.candidates.combine import Candidate
from minova.placement.candidates.request import CandidateRequest
from minova.placement.candidates.search import AllocationCandidates
from minova.placement.candidates.tree import Node
from minova.placement.providers.traits import in_order

_DICTS = (1, 12)
_TRAITS = (1, 17)
_ALL_CLASSES = (1, 27)
_TREES = (1, 29)
_MAPPINGS = (1, 34)


def list_candidates(placement: Placement, call: PlacementCall) -> Answer:
    request = query.parse(call.query, call.version)
    with placement.reads.read() as session:
        result = search.search(session, request)
    return Answer(body=body(result, request, call.version), changed=latest([]))


def body(result: AllocationCandidates, request: CandidateRequest, version: Version) -> dict[str, Any]:
    """Returns the body, to be encoded as JSON. Until 1.26 the summaries have only the requested classes."""
    classes = None if version >= _ALL_CLASSES else request.resource_classes()
    # Many providers have the same traits: they share one list.
    lists = {traits: in_order(traits) for traits in {node.traits for node in result.nodes}}
    return {
        "allocation_requests": [_request(candidate, version) for candidate in result.candidates],
        "provider_summaries": {node.uuid: _summary(node, classes, lists, version) for node in result.nodes},
    }


def _request(candidate: Candidate, version: Version) -> dict[str, Any]:
    allocations = candidate.allocations()
    if version < _DICTS:
        each = [
            {"resource_provider": {"uuid": uuid}, "resources": resources} for uuid, resources in allocations.items()
        ]
        return {"allocations": each}
    answer: dict[str, Any] = {
        "allocations": {uuid: {"resources": resources} for uuid, resources in allocations.items()}
    }
    if version >= _MAPPINGS:
        answer["mappings"] = candidate.mappings()
    return answer


def _summary(
    node: Node, classes: frozenset[str] | None, lists: Mapping[frozenset[str], list[str]], version: Version
) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "resources": {
            name: {"capacity": inventory.capacity, "used": inventory.used}
            for name, inventory in node.inventories.items()
            if classes is None or name in classes
        }
    }
    if version >= _TRAITS:
        summary["traits"] = lists[node.traits]
    if version >= _TREES:
        summary["parent_provider_uuid"] = node.parent_uuid
        summary["root_provider_uuid"] = node.root_uuid
    return summary


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/allocation_candidates",
        rule="placement:allocation_candidates:list",
        handler=list_candidates,
        answer={
            "allocation_requests": list[answers.CandidateAnswer],
            "provider_summaries": dict[str, answers.ProviderSummary],
        },
        since=(1, 10),
        accepts_json=True,
    ),
)
