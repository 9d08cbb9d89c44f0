"""Answers match the description at `/openapi.json`, at Placement's newest microversion."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from minova.api.openapi import describe
from minova.api.placement.routes import ROUTES
from tests.functional.api.placement.conftest import PlacementCloud
from tests.functional.scheduler.cloud import named

# What is asked in place of a path's variables; {a}, {one}: of `add_examples`.
ASKED = {
    "/resource_classes": "/resource_classes",
    "/resource_classes/{name}": "/resource_classes/CUSTOM_GOLD",
    "/resource_providers": "/resource_providers",
    "/resource_providers/{uuid}": "/resource_providers/{a}",
    "/resource_providers/{uuid}/inventories": "/resource_providers/{a}/inventories",
    "/resource_providers/{uuid}/inventories/{resource_class}": "/resource_providers/{a}/inventories/VCPU",
    "/resource_providers/{uuid}/usages": "/resource_providers/{a}/usages",
    "/resource_providers/{uuid}/aggregates": "/resource_providers/{a}/aggregates",
    "/resource_providers/{uuid}/allocations": "/resource_providers/{a}/allocations",
    "/resource_providers/{uuid}/traits": "/resource_providers/{a}/traits",
    "/traits": "/traits",
    "/allocations/{consumer_uuid}": "/allocations/{one}",
    "/allocation_candidates": "/allocation_candidates?resources=VCPU:1",
    "/usages": "/usages?project_id=p",
}


def test_every_described_answer_is_asked_for() -> None:
    assert {route.path for route in ROUTES if route.answer} == ASKED.keys()


@pytest.mark.parametrize("path", ASKED)
def test_answers_match_their_description(stocked: PlacementCloud, path: str) -> None:
    document: Any = json.loads(json.dumps(describe()))
    response = document["paths"][f"/placement{path}"]["get"]["responses"]["200"]
    schema = response["content"]["application/json"]["schema"] | {"components": document["components"]}
    answer = stocked.right("GET", ASKED[path].format(a=named("a"), one=named("one")))
    found = [f"{error.json_path}: {error.message[:200]}" for error in Draft202012Validator(schema).iter_errors(answer)]
    assert found == []
    assert any(answer.values()), "nothing is shown"


def test_a_consumer_without_allocations_matches_too(stocked: PlacementCloud) -> None:
    document: Any = json.loads(json.dumps(describe()))
    response = document["paths"]["/placement/allocations/{consumer_uuid}"]["get"]["responses"]["200"]
    schema = response["content"]["application/json"]["schema"] | {"components": document["components"]}
    answer = stocked.right("GET", f"/allocations/{named('nobody')}")
    assert answer == {"allocations": {}}
    Draft202012Validator(schema).validate(answer)
