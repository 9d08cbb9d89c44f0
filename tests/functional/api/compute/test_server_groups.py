"""Server groups, and servers that are asked for in one."""

import uuid
from typing import Any

import pytest

from minova.db import models
from tests.functional.api.conftest import ALL_FIELDS, Cloud

GROUPS = "/v2.1/os-server-groups"


def make(cloud: Cloud, name: str = "g", **more: Any) -> Any:
    group = {"name": name, **(more or {"policy": "affinity"})}
    status, answer = cloud.ask("POST", GROUPS, {"server_group": group}, **ALL_FIELDS)
    assert status == 200, answer
    return answer["server_group"]


@pytest.mark.parametrize(
    ("asked", "policy", "rules"),
    [
        ({"policies": ["anti-affinity"]}, "anti-affinity", {}),
        ({"policies": ["soft-affinity"]}, "soft-affinity", {}),
        ({"policy": "soft-anti-affinity"}, "soft-anti-affinity", {}),
        ({"policy": "affinity", "rules": {}}, "affinity", {}),
        (
            {"policy": "anti-affinity", "rules": {"max_server_per_host": "3"}},
            "anti-affinity",
            {"max_server_per_host": 3},
        ),
    ],
)
def test_a_group_has_openstacks_shape(cloud: Cloud, asked: dict[str, Any], policy: str, rules: dict[str, int]) -> None:
    created = make(cloud, **asked)
    assert created == {
        "id": created["id"],
        "name": "g",
        "policies": [policy],
        "metadata": {},
        "members": [],
        "project_id": "admin",
        "user_id": "admin",
        "policy": policy,
        "rules": rules,
    }
    assert cloud.get(f"{GROUPS}/{created['id']}", **ALL_FIELDS) == {"server_group": created}
    assert cloud.get(GROUPS, **ALL_FIELDS) == {"server_groups": [created]}
    assert cloud.ask("DELETE", f"{GROUPS}/{created['id']}") == (204, None)
    for method in ("GET", "DELETE"):
        assert cloud.ask(method, f"{GROUPS}/{created['id']}")[0] == 404


@pytest.mark.parametrize(
    "group",
    [
        {"name": "g"},
        {"policy": "affinity"},
        {"name": "", "policy": "affinity"},
        {"name": None, "policy": "affinity"},
        {"name": "x" * 256, "policy": "affinity"},
        {"name": "a\nb", "policy": "affinity"},
        {"name": "g", "policy": "legacy"},
        {"name": "g", "policy": None},
        {"name": "g", "policies": []},
        {"name": "g", "policies": ["affinity", "anti-affinity"]},
        {"name": "g", "policies": ["legacy"]},
        {"name": "g", "policies": "affinity"},
        {"name": "g", "policies": ["affinity"], "policy": "affinity"},
        {"name": "g", "policies": ["anti-affinity"], "rules": {"max_server_per_host": 2}},
        {"name": "g", "policy": "affinity", "rules": {"max_server_per_host": 2}},
        {"name": "g", "policy": "anti-affinity", "rules": {"max_server_per_host": 0}},
        {"name": "g", "policy": "anti-affinity", "rules": {"max_server_per_host": "many"}},
        {"name": "g", "policy": "anti-affinity", "rules": {"fewest": 2}},
        {"name": "g", "policy": "anti-affinity", "rules": None},
        {"name": "g", "policy": "affinity", "colour": "red"},
    ],
)
def test_groups_that_cannot_be(cloud: Cloud, group: dict[str, Any]) -> None:
    status, document = cloud.ask("POST", GROUPS, {"server_group": group})
    assert (status, document["badRequest"]["code"]) == (400, 400)
    assert cloud.get(GROUPS)["server_groups"] == []


def test_each_project_sees_its_own_and_administrators_all(cloud: Cloud) -> None:
    ids = [make(cloud, name)["id"] for name in "abc"]
    with cloud.db.write() as session:
        session.query(models.InstanceGroup).filter_by(name="b").update({"project_id": "other"})

    def listed(query: str = "") -> list[str]:
        return [server_group["id"] for server_group in cloud.get(GROUPS + query)["server_groups"]]

    assert listed() == [ids[0], ids[2]]
    assert listed("?all_projects=True") == ids
    assert listed("?all_projects&limit=1&offset=1") == [ids[1]]
    assert listed("?offset=5") == []
    for query in ("?limit=-1", "?offset=-1", "?limit=x"):
        assert cloud.ask("GET", GROUPS + query)[0] == 400


def test_members_are_the_servers_that_are_not_deleted(stocked: Cloud) -> None:
    group = make(stocked)
    ids = [stocked.make_server(name)["id"] for name in "ab"]
    with stocked.db.write() as session:
        group_id = session.query(models.InstanceGroup.id).scalar()
        session.add_all([models.InstanceGroupMember(instance_uuid=member_id, group_id=group_id) for member_id in ids])
    assert stocked.get(f"{GROUPS}/{group['id']}")["server_group"]["members"] == ids
    stocked.ask("DELETE", f"/v2.1/servers/{ids[0]}")
    assert stocked.get(GROUPS)["server_groups"][0]["members"] == [ids[1]]


@pytest.mark.parametrize("form", [str, lambda one: [one], lambda one: one.upper(), lambda one: one.replace("-", "")])
def test_a_server_is_asked_for_in_a_group(stocked: Cloud, form: Any) -> None:
    group = make(stocked)["id"]
    body = {"server": stocked.server, "os:scheduler_hints": {"group": form(group)}}
    assert stocked.ask("POST", "/v2.1/servers", body)[0] == 202
    assert stocked.conductor.requests[0].scheduler_hints == {"group": group}


@pytest.mark.parametrize(
    ("hints", "named"),
    [
        ({"group": "web"}, "group"),
        ({"group": 7}, "group"),
        ({"group": str(uuid.uuid4())}, "could not be found"),
        ({"group": [str(uuid.uuid4()), str(uuid.uuid4())]}, "one server group only"),
        ({"same_host": ["a"]}, "same_host"),
        ({"different_host": ["a"]}, "different_host"),
        ({"query": "{not json"}, "query"),
        ({"query": 7}, "query"),
        ({"target_cell": ""}, "target_cell"),
        ({"different_cell": [7]}, "different_cell"),
        ({"build_near_host_ip": "here"}, "build_near_host_ip"),
        ({"cidr": "24"}, "cidr"),
    ],
)
def test_hints_that_cannot_be(stocked: Cloud, hints: dict[str, Any], named: str) -> None:
    status, document = stocked.ask("POST", "/v2.1/servers", {"server": stocked.server, "os:scheduler_hints": hints})
    assert status == 400
    assert named in document["badRequest"]["message"]
    assert stocked.conductor.requests == []
