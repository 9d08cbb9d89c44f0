"""Provider trees: roots follow their parents, and no move makes a loop."""

from typing import Any

import pytest

from tests.functional.api.placement.conftest import LATEST, PlacementCloud
from tests.functional.scheduler.cloud import named


@pytest.fixture
def trees(cloud: PlacementCloud) -> PlacementCloud:
    """a over b over c and d; x alone."""
    for name, parent in (("a", None), ("b", "a"), ("c", "b"), ("d", "b"), ("x", None)):
        cloud.provider(name, parent)
    return cloud


def move(cloud: PlacementCloud, name: str, parent: str | None, version: str = LATEST) -> Any:
    body = {"name": name, "parent_provider_uuid": parent and named(parent)}
    return cloud.ask("PUT", f"/resource_providers/{named(name)}", body, version)


def roots(cloud: PlacementCloud) -> dict[str, str]:
    shown = cloud.right("GET", "/resource_providers")["resource_providers"]
    names = {provider["uuid"]: provider["name"] for provider in shown}
    return {provider["name"]: names[provider["root_provider_uuid"]] for provider in shown}


@pytest.mark.parametrize(
    ("name", "parent", "after"),
    [
        ("b", "x", {"a": "a", "b": "x", "c": "x", "d": "x", "x": "x"}),
        ("b", None, {"a": "a", "b": "b", "c": "b", "d": "b", "x": "x"}),
        ("a", "x", {"a": "x", "b": "x", "c": "x", "d": "x", "x": "x"}),
        ("c", "a", {"a": "a", "b": "a", "c": "a", "d": "a", "x": "x"}),
        ("c", "d", {"a": "a", "b": "a", "c": "a", "d": "a", "x": "x"}),
        ("c", "b", {"a": "a", "b": "a", "c": "a", "d": "a", "x": "x"}),
    ],
)
def test_all_below_follow_to_the_new_root(
    trees: PlacementCloud, name: str, parent: str | None, after: dict[str, str]
) -> None:
    assert move(trees, name, parent).status == 200
    assert roots(trees) == after
    for root in set(after.values()):
        shown = trees.right("GET", f"/resource_providers?in_tree={named(root)}")["resource_providers"]
        assert {provider["name"] for provider in shown} == {below for below, top in after.items() if top == root}


@pytest.mark.parametrize(("name", "parent"), [("a", "a"), ("a", "b"), ("a", "c"), ("b", "d")])
def test_a_loop_is_refused(trees: PlacementCloud, name: str, parent: str) -> None:
    before = trees.everything()
    answer = move(trees, name, parent)
    assert (answer.status, "creating loop" in answer.error["detail"]) == (400, True)
    assert trees.everything() == before


@pytest.mark.parametrize(
    ("name", "parent", "words"),
    [("b", "x", "re-parenting a provider is not currently allowed"), ("b", None, "un-parenting a provider")],
)
def test_before_1_37_a_provider_keeps_its_parent(
    trees: PlacementCloud, name: str, parent: str | None, words: str
) -> None:
    answer = move(trees, name, parent, "1.36")
    assert (answer.status, words in answer.error["detail"]) == (400, True)
    assert move(trees, "x", "c", "1.36").status == 200
    assert roots(trees)["x"] == "a"


def test_only_a_leaf_goes(trees: PlacementCloud) -> None:
    assert trees.ask("DELETE", f"/resource_providers/{named('b')}").status == 409
    for name in ("c", "d", "b", "a"):
        trees.right("DELETE", f"/resource_providers/{named(name)}")
    assert roots(trees) == {"x": "x"}
