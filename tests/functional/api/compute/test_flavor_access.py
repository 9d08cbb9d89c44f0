"""Access of projects to private flavors: who sees and uses one."""

from typing import Any

import pytest

from tests.functional.api.conftest import Cloud, at

PATH = "/v2.1/flavors/f"


def as_user(project: str, **headers: str) -> dict[str, Any]:
    return {"headers": {"X-Auth-Token": f"admin:{project}", **headers}}


def names(page: Any) -> list[str]:
    return [flavor["name"] for flavor in page["flavors"]]


@pytest.fixture
def private(stocked: Cloud) -> Cloud:
    stocked.make_flavor("f", id="f", **{"os-flavor-access:is_public": False})
    return stocked


def change(cloud: Cloud, action: str, project: str, path: str = PATH, version: str = "2.1") -> tuple[int, Any]:
    return cloud.ask("POST", f"{path}/action", {action: {"tenant": project}}, **at(version))


def test_access_is_given_and_taken(private: Cloud) -> None:
    assert private.get(f"{PATH}/os-flavor-access") == {"flavor_access": []}
    expected = {"flavor_access": [{"flavor_id": "f", "tenant_id": "acme"}]}
    assert change(private, "addTenantAccess", "acme") == (200, expected)
    assert private.get(f"{PATH}/os-flavor-access") == expected
    status, answer = change(private, "addTenantAccess", "acme")
    assert (status, "already exists" in answer["conflictingRequest"]["message"]) == (409, True)
    assert change(private, "removeTenantAccess", "acme") == (200, {"flavor_access": []})
    assert change(private, "removeTenantAccess", "acme")[0] == 404


def test_a_public_flavor_has_no_access_list(stocked: Cloud) -> None:
    stocked.make_flavor("g", id="g")
    status, answer = stocked.ask("GET", "/v2.1/flavors/g/os-flavor-access")
    assert (status, answer["itemNotFound"]["message"]) == (404, "Access list not available for public flavors.")
    assert change(stocked, "addTenantAccess", "acme", "/v2.1/flavors/g", "2.7")[0] == 409
    assert change(stocked, "addTenantAccess", "acme", "/v2.1/flavors/g", "2.6")[0] == 200


def test_access_ends_with_the_flavor(private: Cloud) -> None:
    change(private, "addTenantAccess", "acme")
    assert private.ask("DELETE", PATH)[0] == 202
    private.make_flavor("f", id="f", **{"os-flavor-access:is_public": False})
    assert private.get(f"{PATH}/os-flavor-access") == {"flavor_access": []}


def test_an_administrator_lists_the_private_flavors_of_the_own_project_with_the_public_ones(private: Cloud) -> None:
    change(private, "addTenantAccess", "acme")
    assert names(private.get("/v2.1/flavors")) == ["tiny"]
    assert sorted(names(private.get("/v2.1/flavors", **as_user("acme")))) == ["f", "tiny"]
    assert names(private.get("/v2.1/flavors?is_public=false")) == ["f"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"addTenantAccess": None},
        {"addTenantAccess": {}},
        {"addTenantAccess": {"tenant": ""}},
        {"addTenantAccess": {"tenant": "a b"}},
        {"addTenantAccess": {"tenant": "a", "more": 1}},
        {"addTenantAccess": {"tenant": "a"}, "removeTenantAccess": {"tenant": "a"}},
        {"resize": {}},
    ],
)
def test_what_is_no_action_is_refused(private: Cloud, body: Any) -> None:
    assert private.ask("POST", f"{PATH}/action", body)[0] == 400
    assert change(private, "addTenantAccess", "acme", "/v2.1/flavors/none")[0] == 404
