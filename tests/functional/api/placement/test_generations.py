"""A writer that has read an older state gets 409 and changes nothing. Allocations of several consumers are all or none."""

from typing import Any

import pytest

from tests.functional.api.placement.conftest import PlacementCloud, holding
from tests.functional.scheduler.cloud import named

A, B, OTHER = named("a"), named("b"), named("other")
RP = f"/resource_providers/{A}"
GENERATION = 3


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{RP}/inventories", {"inventories": {"VCPU": {"total": 8}}}),
        (f"{RP}/inventories/VCPU", {"total": 8}),
        (f"{RP}/traits", {"traits": []}),
        (f"{RP}/aggregates", {"aggregates": []}),
    ],
)
def test_a_stale_provider_generation_is_refused(stocked: PlacementCloud, path: str, body: Any) -> None:
    before = stocked.everything()
    for stale in (GENERATION - 1, GENERATION + 1):
        answer = stocked.ask("PUT", path, {**body, "resource_provider_generation": stale})
        assert (answer.status, answer.error["code"]) == (409, "placement.concurrent_update")
    assert stocked.everything() == before


@pytest.mark.parametrize(
    ("method", "path", "body", "raised"),
    [
        ("PUT", f"{RP}/inventories", {"inventories": {"VCPU": {"total": 8}}}, 1),
        ("PUT", f"{RP}/inventories/VCPU", {"total": 8}, 1),
        ("POST", f"{RP}/inventories", {"resource_class": "DISK_GB", "total": 8}, 1),
        ("DELETE", f"{RP}/inventories/MEMORY_MB", None, 1),
        ("PUT", f"{RP}/traits", {"traits": ["HW_CPU_X86_VMX"]}, 1),
        ("PUT", f"{RP}/traits", {"traits": ["CUSTOM_FAST"]}, 0),
        ("PUT", f"{RP}/aggregates", {"aggregates": [named("rack")]}, 1),
        ("PUT", f"/allocations/{named('new')}", holding(a={"VCPU": 1}), 1),
        ("DELETE", f"/allocations/{named('one')}", None, 0),
        ("PUT", RP, {"name": "renamed"}, 0),
    ],
)
def test_what_raises_a_providers_generation(
    stocked: PlacementCloud, method: str, path: str, body: Any, raised: int
) -> None:
    if method == "PUT" and path != RP and path.startswith(RP):
        body = {**body, "resource_provider_generation": GENERATION}
    stocked.right(method, path, body)
    assert stocked.right("GET", RP)["generation"] == GENERATION + raised


@pytest.mark.parametrize(
    ("consumer", "given", "words"),
    [
        ("one", None, "expected 1 but got null"),
        ("one", 0, "expected 1 but got 0"),
        ("one", 2, "expected 1 but got 2"),
        ("new", 0, "expected null but got 0"),
    ],
)
def test_a_stale_consumer_generation_is_refused(
    stocked: PlacementCloud, consumer: str, given: int | None, words: str
) -> None:
    before = stocked.everything()
    answer = stocked.put(consumer, given, a={"VCPU": 1})
    assert (answer.status, answer.error["code"]) == (409, "placement.concurrent_update")
    assert words in answer.error["detail"]
    assert stocked.everything() == before


def test_a_consumer_generation_counts_and_begins_again_when_nothing_is_held(stocked: PlacementCloud) -> None:
    path = f"/allocations/{named('one')}"
    assert stocked.put("one", 1, a={"VCPU": 3}).status == 204
    assert stocked.right("GET", path)["consumer_generation"] == 2
    assert stocked.put("one", 2).status == 204
    assert stocked.right("GET", path) == {"allocations": {}}
    assert stocked.used("a") == {"MEMORY_MB": 0, "VCPU": 0}
    assert stocked.put("one", None, a={"VCPU": 1}).status == 204
    assert stocked.right("GET", path)["consumer_generation"] == 1


def test_before_1_28_no_generation_is_asked_for(stocked: PlacementCloud) -> None:
    body = {"allocations": {A: {"resources": {"VCPU": 4}}}, "project_id": "q", "user_id": "v"}
    stocked.right("PUT", f"/allocations/{named('one')}", body, "1.27")
    shown = stocked.right("GET", f"/allocations/{named('one')}")
    assert (shown["project_id"], shown["consumer_generation"], shown["consumer_type"]) == ("q", 2, "INSTANCE")


def test_one_consumer_holds_of_several_providers(stocked: PlacementCloud) -> None:
    assert stocked.put("one", 1, a={"VCPU": 1}, b={"CUSTOM_GOLD": 2}, other={"VCPU": 4}).status == 204
    assert stocked.held("one") == {A: {"VCPU": 1}, B: {"CUSTOM_GOLD": 2}, OTHER: {"VCPU": 4}}
    assert (stocked.used("b"), stocked.used("other")) == ({"CUSTOM_GOLD": 2}, {"VCPU": 4})
    assert stocked.put("two", None, a={"VCPU": 1}, other={"VCPU": 1}).status == 409
    assert stocked.held("two") == {}


def test_two_may_change_places_where_neither_has_room_for_both(stocked: PlacementCloud) -> None:
    assert stocked.put("one", 1, other={"VCPU": 4}).status == 204
    assert stocked.put("two", None, b={"CUSTOM_GOLD": 2}).status == 204
    both = {named("one"): holding(2, b={"CUSTOM_GOLD": 2}), named("two"): holding(1, other={"VCPU": 4})}
    assert stocked.ask("POST", "/allocations", both).status == 204
    assert stocked.held("one") == {B: {"CUSTOM_GOLD": 2}}
    assert stocked.held("two") == {OTHER: {"VCPU": 4}}


def test_of_several_consumers_all_are_written_or_none(stocked: PlacementCloud) -> None:
    before = stocked.everything()
    both = {named("two"): holding(other={"VCPU": 1}), named("three"): holding(other={"VCPU": 4})}
    assert stocked.ask("POST", "/allocations", both).status == 409
    both[named("three")] = holding(7, other={"VCPU": 1})
    assert stocked.ask("POST", "/allocations", both).status == 409
    assert stocked.everything() == before


def test_what_is_over_its_capacity_may_shrink_and_not_grow(stocked: PlacementCloud) -> None:
    body = {"resource_provider_generation": GENERATION, "total": 1}
    stocked.right("PUT", f"{RP}/inventories/VCPU", body)
    assert stocked.put("one", 1, a={"VCPU": 3}).status == 409
    assert stocked.put("new", None, a={"VCPU": 1}).status == 409
    assert stocked.put("one", 1, a={"VCPU": 2}).status == 204
    assert stocked.put("one", 2, a={"VCPU": 1}).status == 204


def test_a_reshape_moves_inventory_and_allocations_together(stocked: PlacementCloud) -> None:
    def inventories(a: Any, b: Any) -> Any:
        return {
            A: {"resource_provider_generation": GENERATION, "inventories": a},
            B: {"resource_provider_generation": 1, "inventories": b},
        }

    memory = {"total": 4096}
    moved = inventories({"MEMORY_MB": memory}, {"VCPU": {"total": 8}, "CUSTOM_GOLD": {"total": 2}})
    before = stocked.everything()
    for allocations in ({}, {named("one"): holding(1, b={"VCPU": 9})}, {named("one"): holding(9, b={"VCPU": 2})}):
        answer = stocked.ask("POST", "/reshaper", {"inventories": moved, "allocations": allocations})
        assert answer.status == 409
        assert stocked.everything() == before
    stocked.right("POST", "/reshaper", {"inventories": moved, "allocations": {named("one"): holding(1, b={"VCPU": 2})}})
    assert stocked.used("a") == {"MEMORY_MB": 0}
    assert stocked.used("b") == {"CUSTOM_GOLD": 0, "VCPU": 2}
