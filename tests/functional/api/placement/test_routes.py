"""Every route: what it answers when it is there, and that older microversions do not have it."""

from typing import Any

import pytest

from tests.functional.api.placement.conftest import PlacementCloud, holding
from tests.functional.scheduler.cloud import named

A, B, OTHER = named("a"), named("b"), named("other")
ONE, NEW = named("one"), named("new")
RP = f"/resource_providers/{A}"
VCPU = {"total": 8}
# a: made, inventories, traits, allocation of one
GENERATION = 3

# (method, path, body, first version, status, keys of the answer)
ROUTES: list[tuple[str, str, Any, str, int, set[str]]] = [
    ("GET", "/", None, "1.0", 200, {"versions"}),
    ("GET", "/resource_classes", None, "1.2", 200, {"resource_classes"}),
    ("POST", "/resource_classes", {"name": "CUSTOM_NEW"}, "1.2", 201, set()),
    ("GET", "/resource_classes/VCPU", None, "1.2", 200, {"name", "links"}),
    ("PUT", "/resource_classes/CUSTOM_GOLD", {"name": "CUSTOM_NEW"}, "1.2", 200, {"name", "links"}),
    ("GET", "/resource_providers", None, "1.0", 200, {"resource_providers"}),
    ("POST", "/resource_providers", {"name": "new"}, "1.0", 201, set()),
    ("GET", RP, None, "1.0", 200, {"uuid", "name", "generation", "links"}),
    ("PUT", RP, {"name": "renamed"}, "1.0", 200, {"uuid", "name", "generation", "links"}),
    ("GET", f"{RP}/inventories", None, "1.0", 200, {"inventories", "resource_provider_generation"}),
    ("POST", f"{RP}/inventories", {"resource_class": "DISK_GB", **VCPU}, "1.0", 201, {"total", "max_unit"}),
    (
        "PUT",
        f"{RP}/inventories",
        {"resource_provider_generation": GENERATION, "inventories": {"VCPU": VCPU}},
        "1.0",
        200,
        {"inventories"},
    ),
    ("GET", f"{RP}/inventories/VCPU", None, "1.0", 200, {"total", "reserved", "resource_provider_generation"}),
    (
        "PUT",
        f"{RP}/inventories/VCPU",
        {"resource_provider_generation": GENERATION, "total": 9},
        "1.0",
        200,
        {"total", "step_size"},
    ),
    ("DELETE", f"{RP}/inventories/MEMORY_MB", None, "1.0", 204, set()),
    ("DELETE", f"/resource_providers/{OTHER}/inventories", None, "1.5", 204, set()),
    ("GET", f"{RP}/usages", None, "1.0", 200, {"usages", "resource_provider_generation"}),
    ("GET", f"{RP}/aggregates", None, "1.1", 200, {"aggregates"}),
    ("PUT", f"{RP}/aggregates", [named("rack")], "1.1", 200, {"aggregates"}),
    ("GET", f"{RP}/allocations", None, "1.0", 200, {"allocations", "resource_provider_generation"}),
    ("GET", f"{RP}/traits", None, "1.6", 200, {"traits", "resource_provider_generation"}),
    (
        "PUT",
        f"{RP}/traits",
        {"resource_provider_generation": GENERATION, "traits": ["HW_CPU_X86_VMX"]},
        "1.6",
        200,
        {"traits"},
    ),
    ("DELETE", f"{RP}/traits", None, "1.6", 204, set()),
    ("DELETE", f"/resource_providers/{B}", None, "1.0", 204, set()),
    ("GET", "/traits", None, "1.6", 200, {"traits"}),
    ("GET", "/traits/HW_CPU_X86_VMX", None, "1.6", 204, set()),
    ("PUT", "/traits/CUSTOM_NEW", None, "1.6", 201, set()),
    ("PUT", "/traits/CUSTOM_FAST", None, "1.6", 204, set()),
    ("GET", f"/allocations/{ONE}", None, "1.0", 200, {"allocations"}),
    (
        "PUT",
        f"/allocations/{NEW}",
        {"allocations": [{"resource_provider": {"uuid": A}, "resources": {"VCPU": 1}}]},
        "1.0",
        204,
        set(),
    ),
    ("DELETE", f"/allocations/{ONE}", None, "1.0", 204, set()),
    (
        "POST",
        "/allocations",
        {NEW: {"allocations": {A: {"resources": {"VCPU": 1}}}, "project_id": "p", "user_id": "u"}},
        "1.13",
        204,
        set(),
    ),
    ("GET", "/allocation_candidates?resources=VCPU:1", None, "1.10", 200, {"allocation_requests"}),
    ("GET", "/usages?project_id=p", None, "1.9", 200, {"usages"}),
    (
        "POST",
        "/reshaper",
        {
            "inventories": {OTHER: {"resource_provider_generation": 1, "inventories": {"VCPU": VCPU}}},
            "allocations": {},
        },
        "1.30",
        204,
        set(),
    ),
]  # fmt: skip


def joined_text(value: Any) -> str:
    """The same in each process: sets have no order."""
    return str(sorted(value) if isinstance(value, set) else value)[:40]


@pytest.mark.parametrize(("method", "path", "body", "since", "status", "keys"), ROUTES, ids=joined_text)
def test_a_route_answers_from_its_first_microversion_on(
    stocked: PlacementCloud, method: str, path: str, body: Any, since: str, status: int, keys: set[str]
) -> None:
    major, minor = since.split(".")
    if since != "1.0":
        before = stocked.ask(method, path, body, f"{major}.{int(minor) - 1}")
        assert before.status == (405 if method == "DELETE" and path.endswith("/inventories") else 404)
    answer = stocked.ask(method, path, body, since)
    assert answer.status == status, answer
    assert keys <= set(answer.body or {}), answer
    assert (answer.body is None) == (not keys)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/", "GET"),
        ("/resource_providers", "GET, POST"),
        (RP, "GET, PUT, DELETE"),
        (f"{RP}/inventories", "GET, POST, PUT, DELETE"),
        (f"{RP}/usages", "GET"),
        ("/traits", "GET"),
        ("/allocations", "POST"),
        ("/allocation_candidates", "GET"),
        ("/reshaper", "POST"),
    ],
)
def test_other_methods_are_refused_with_those_that_there_are(cloud: PlacementCloud, path: str, allowed: str) -> None:
    answer = cloud.ask("PATCH", path)
    assert (answer.status, answer.headers["allow"]) == (405, allowed)
    assert answer.error["title"] == "Method Not Allowed"


@pytest.mark.parametrize(
    ("version", "rels", "more"),
    [
        ("1.0", "self inventories usages", set()),
        ("1.6", "self inventories usages aggregates traits", set()),
        ("1.11", "self inventories usages aggregates traits allocations", set()),
        (
            "1.14",
            "self inventories usages aggregates traits allocations",
            {"parent_provider_uuid", "root_provider_uuid"},
        ),
    ],
)
def test_a_provider_shows_what_its_microversion_knows(
    stocked: PlacementCloud, version: str, rels: str, more: set[str]
) -> None:
    shown = stocked.right("GET", RP, version=version)
    assert set(shown) == {"uuid", "name", "generation", "links"} | more
    assert [link["rel"] for link in shown["links"]] == rels.split()
    assert shown["links"][1]["href"] == f"{RP}/inventories"


@pytest.mark.parametrize(
    ("version", "keys"),
    [
        ("1.11", set()),
        ("1.12", {"project_id", "user_id"}),
        ("1.28", {"project_id", "user_id", "consumer_generation"}),
        ("1.38", {"project_id", "user_id", "consumer_generation", "consumer_type"}),
    ],
)
def test_allocations_show_what_their_microversion_knows(stocked: PlacementCloud, version: str, keys: set[str]) -> None:
    shown = stocked.right("GET", f"/allocations/{ONE}", version=version)
    assert set(shown) == {"allocations"} | keys
    assert shown["allocations"] == {A: {"resources": {"VCPU": 2}, "generation": GENERATION}}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", "a b other"),
        ("name=a", "a"),
        (f"uuid={B}", "b"),
        (f"uuid={B.replace('-', '')}", "b"),
        (f"in_tree={B}", "a b"),
        (f"in_tree={named('nobody')}", ""),
        ("resources=VCPU:4", "a other"),
        ("resources=VCPU:7", ""),
        ("resources=VCPU:99999999999", ""),
        ("resources=MEMORY_MB:300", ""),
        ("resources=CUSTOM_GOLD:2", "b"),
        ("required=CUSTOM_FAST", "a"),
        ("required=!CUSTOM_FAST", "b other"),
        ("required=in:CUSTOM_FAST,HW_CPU_X86_VMX", "a"),
        (f"member_of={named('rack')}", "other"),
        (f"member_of=in:{named('rack')},{named('row')}", "a other"),
        (f"member_of=!{named('rack')}", "a b"),
        (f"member_of=!in:{named('rack')},{named('row')}", "b"),
        (f"member_of={named('rack')}&member_of={named('row')}", ""),
    ],
)
def test_providers_are_filtered(stocked: PlacementCloud, query: str, found: str) -> None:
    for name, aggregate, generation in (("other", "rack", 1), ("a", "row", GENERATION)):
        body = {"aggregates": [named(aggregate)], "resource_provider_generation": generation}
        stocked.right("PUT", f"/resource_providers/{named(name)}/aggregates", body)
    shown = stocked.right("GET", f"/resource_providers?{query}")["resource_providers"]
    assert [provider["name"] for provider in shown] == found.split()


def test_allocations_of_a_provider_are_those_of_its_consumers(stocked: PlacementCloud) -> None:
    assert stocked.put("two", other={"VCPU": 1}).status == 204
    for provider, consumer in (("a", "one"), ("other", "two")):
        shown = stocked.right("GET", f"/resource_providers/{named(provider)}/allocations")["allocations"]
        held = stocked.held(consumer)[named(provider)]
        assert {uuid: of["resources"] for uuid, of in shown.items()} == {named(consumer): held}


@pytest.mark.parametrize(
    ("query", "usages"),
    [
        ("", {"INSTANCE": {"VCPU": 3, "consumer_count": 2}, "MIGRATION": {"VCPU": 1, "consumer_count": 1}}),
        ("&user_id=u", {"INSTANCE": {"VCPU": 3, "consumer_count": 2}, "MIGRATION": {"VCPU": 1, "consumer_count": 1}}),
        ("&user_id=v", {}),
        ("&consumer_type=MIGRATION", {"MIGRATION": {"VCPU": 1, "consumer_count": 1}}),
        ("&consumer_type=all", {"all": {"VCPU": 4, "consumer_count": 3}}),
        ("&consumer_type=unknown", {}),
    ],
)
def test_usages_of_a_project_are_by_consumer_type(stocked: PlacementCloud, query: str, usages: Any) -> None:
    assert stocked.put("two", other={"VCPU": 1}).status == 204
    moved = {**holding(a={"VCPU": 1}), "consumer_type": "MIGRATION"}
    stocked.right("PUT", f"/allocations/{named('three')}", moved)
    assert stocked.right("GET", f"/usages?project_id=p{query}")["usages"] == usages
    assert stocked.right("GET", "/usages?project_id=p", version="1.37")["usages"] == {"VCPU": 4}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("name=in:CUSTOM_FAST,CUSTOM_NONE,HW_CPU_X86_VMX", ["HW_CPU_X86_VMX", "CUSTOM_FAST"]),
        ("name=startswith:CUSTOM_", ["CUSTOM_FAST"]),
        ("associated=true", ["CUSTOM_FAST"]),
        ("associated=false&name=startswith:CUSTOM_", []),
    ],
)
def test_traits_are_filtered(stocked: PlacementCloud, query: str, found: list[str]) -> None:
    assert stocked.right("GET", f"/traits?{query}")["traits"] == found


def test_from_1_7_on_a_class_is_there_after_a_put(stocked: PlacementCloud) -> None:
    assert stocked.ask("PUT", "/resource_classes/CUSTOM_NEW", None, "1.7").status == 201
    assert stocked.ask("PUT", "/resource_classes/CUSTOM_NEW", None, "1.7").status == 204
    assert stocked.ask("PUT", "/resource_classes/CUSTOM_NEW", None, "1.6").status == 415


def test_a_class_is_renamed_with_all_that_is_of_it_before_1_7(stocked: PlacementCloud) -> None:
    stocked.right("PUT", "/resource_classes/CUSTOM_GOLD", {"name": "CUSTOM_SILVER"}, "1.6")
    assert set(stocked.used("b")) == {"CUSTOM_SILVER"}
    assert stocked.ask("GET", "/resource_classes/CUSTOM_GOLD").status == 404


def test_below_another_path_links_and_locations_begin_there(stocked: PlacementCloud) -> None:
    created = stocked.ask("POST", "/resource_providers", {"name": "x"}, "1.20", root="/placement")
    assert created.body["links"][0]["href"] == f"/placement/resource_providers/{created.body['uuid']}"
    assert created.headers["location"] == f"http://localhost/placement/resource_providers/{created.body['uuid']}"
