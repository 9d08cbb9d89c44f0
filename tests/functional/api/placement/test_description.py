"""Answers match the description at `/openapi.json`, at Placement's newest microversion."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from minova.api.openapi import describe
from minova.api.placement.routes import ROUTES
from minova.api.placement.versions import MAX
from tests.functional.api.placement.conftest import Answer, PlacementCloud, holding
from tests.functional.scheduler.cloud import named

# As it comes out of JSON.
DOCUMENT: Any = json.loads(json.dumps(describe()))
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
    assert {route.path for route in ROUTES if route.method == "GET" and route.answer} == ASKED.keys()


@pytest.mark.parametrize("path", ASKED)
def test_answers_match_their_description(stocked: PlacementCloud, path: str) -> None:
    answer = stocked.ask("GET", ASKED[path].format(a=named("a"), one=named("one")))
    check("GET", path, answer)
    assert any(answer.body.values()), "nothing is shown"


def test_a_consumer_without_allocations_matches_too(stocked: PlacementCloud) -> None:
    answer = stocked.ask("GET", f"/allocations/{named('nobody')}")
    assert answer.body == {"allocations": {}}
    check("GET", "/allocations/{consumer_uuid}", answer)


def changes() -> list[tuple[str, str, str, Any, int]]:
    """(method, path of the description, path that is asked, body, status), one after the other on what `add_examples` has made."""
    b = f"/resource_providers/{named('b')}"
    inventory = {"resource_provider_generation": 3, "total": 9}
    provider_path = "/resource_providers/{uuid}"
    several = {"resource_provider_generation": 1, "inventories": {"VCPU": {"total": 2}, "DISK_GB": {"total": 9}}}
    held = holding(None, other={"VCPU": 1})
    empty = {**held, "allocations": {}, "consumer_generation": 1}
    untouched = {"resource_provider_generation": 9, "inventories": {}}
    reshaped = {"inventories": {named("b"): untouched}, "allocations": {named("three"): holding(None, a={"VCPU": 1})}}
    return [
        ("POST", "/resource_classes", "/resource_classes", {"name": "CUSTOM_NEW"}, 201),
        ("PUT", "/resource_classes/{name}", "/resource_classes/CUSTOM_NEWER", None, 201),
        ("PUT", "/resource_classes/{name}", "/resource_classes/CUSTOM_NEWER", None, 204),
        ("DELETE", "/resource_classes/{name}", "/resource_classes/CUSTOM_NEWER", None, 204),
        ("POST", "/resource_providers", "/resource_providers", {"name": "new"}, 200),
        ("PUT", provider_path, b, {"name": "renamed"}, 200),
        ("PUT", f"{provider_path}/inventories", f"{b}/inventories", several, 200),
        ("POST", f"{provider_path}/inventories", f"{b}/inventories", {"resource_class": "MEMORY_MB", "total": 1}, 201),
        ("PUT", f"{provider_path}/inventories/{{resource_class}}", f"{b}/inventories/VCPU", inventory, 200),
        ("DELETE", f"{provider_path}/inventories/{{resource_class}}", f"{b}/inventories/VCPU", None, 204),
        ("DELETE", f"{provider_path}/inventories", f"{b}/inventories", None, 204),
        (
            "PUT",
            f"{provider_path}/aggregates",
            f"{b}/aggregates",
            {"resource_provider_generation": 6, "aggregates": []},
            200,
        ),
        (
            "PUT",
            f"{provider_path}/traits",
            f"{b}/traits",
            {"resource_provider_generation": 7, "traits": ["CUSTOM_FAST"]},
            200,
        ),
        ("DELETE", f"{provider_path}/traits", f"{b}/traits", None, 204),
        ("GET", "/traits/{name}", "/traits/CUSTOM_FAST", None, 204),
        ("PUT", "/traits/{name}", "/traits/CUSTOM_NEW", None, 201),
        ("PUT", "/traits/{name}", "/traits/CUSTOM_NEW", None, 204),
        ("DELETE", "/traits/{name}", "/traits/CUSTOM_NEW", None, 204),
        ("PUT", "/allocations/{consumer_uuid}", f"/allocations/{named('two')}", held, 204),
        ("POST", "/allocations", "/allocations", {named("two"): empty}, 204),
        ("POST", "/reshaper", "/reshaper", reshaped, 204),
        ("DELETE", "/allocations/{consumer_uuid}", f"/allocations/{named('three')}", None, 204),
        ("DELETE", provider_path, b, None, 204),
    ]


def test_changes_are_answered_as_described(stocked: PlacementCloud) -> None:
    for method, path, requested_path, body, status in changes():
        answer = stocked.ask(method, requested_path, body)
        assert answer.status == status, f"{method} {requested_path}: {answer}"
        check(method, path, answer)


def test_every_change_is_asked_for() -> None:
    newest = {(route.method, route.path) for route in ROUTES if route.until >= MAX and not route.answer}
    newest |= {(route.method, route.path) for route in ROUTES if route.method != "GET" and route.until >= MAX}
    assert newest - {("GET", "/")} == {(method, path) for method, path, *_ in changes()}


def test_changes_have_no_other_statuses() -> None:
    """But refusals."""
    statuses_by_route = {(method, path): set[str]() for method, path, *_ in changes()}
    for method, path, *_, status in changes():
        statuses_by_route[method, path].add(str(status))
    for (method, path), statuses in statuses_by_route.items():
        assert {*DOCUMENT["paths"][f"/placement{path}"][method.lower()]["responses"]} == {*statuses, "4XX"}


def check(method: str, path: str, answer: Answer) -> None:
    """Its status is described, and its body matches."""
    response = DOCUMENT["paths"][f"/placement{path}"][method.lower()]["responses"][str(answer.status)]
    if "content" not in response:
        assert answer.body is None
        return
    schema = response["content"]["application/json"]["schema"] | {"components": DOCUMENT["components"]}
    schema_errors = [
        f"{error.json_path}: {error.message[:200]}" for error in Draft202012Validator(schema).iter_errors(answer.body)
    ]
    assert schema_errors == []
