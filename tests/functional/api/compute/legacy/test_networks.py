"""`/os-networks`, `/os-tenant-networks`, `/os-security-groups` and their rules, until 2.35."""

import uuid
from typing import Any

import pytest

from tests.functional.api.conftest import Cloud, at
from tests.functional.api.network.test_networks import network

GROUPS, RULES = "/v2.1/os-security-groups", "/v2.1/os-security-group-rules"
Json = dict[str, Any]


def group(cloud: Cloud, name: str = "web") -> Json:
    status, answer = cloud.ask("POST", GROUPS, {"security_group": {"name": name, "description": "d"}})
    assert status == 200, answer
    security_group: Json = answer["security_group"]
    return security_group


def rule(cloud: Cloud, parent: str, **more: Any) -> tuple[int, Any]:
    return cloud.ask("POST", RULES, {"security_group_rule": {"parent_group_id": parent, **more}})


def test_networks_have_ids_and_names(cloud: Cloud) -> None:
    new_network = network(cloud, name="blue")
    (listed,) = cloud.get("/v2.1/os-networks")["networks"]
    assert (listed["id"], listed["label"], listed["cidr"]) == (new_network["id"], "blue", None)
    assert "vlan" in listed, "for administrators"
    assert cloud.get(f"/v2.1/os-networks/{new_network['id']}") == {"network": listed}
    brief = {"id": new_network["id"], "label": "blue", "cidr": "None"}
    assert cloud.get("/v2.1/os-tenant-networks") == {"networks": [brief]}
    assert cloud.get(f"/v2.1/os-tenant-networks/{new_network['id']}") == {"network": brief}
    for path in ("os-networks", "os-tenant-networks"):
        assert cloud.ask("GET", f"/v2.1/{path}/{uuid.uuid4()}")[0] == 404
        assert cloud.ask("GET", f"/v2.1/{path}/x")[0] == 404
        assert cloud.ask("GET", f"/v2.1/{path}", **at("2.36"))[0] == 404
        assert cloud.ask("POST", f"/v2.1/{path}", {})[0] == 410


def test_groups_are_those_of_the_network_api(cloud: Cloud) -> None:
    new_group = group(cloud)
    assert new_group == {
        "id": new_group["id"],
        "name": "web",
        "description": "d",
        "tenant_id": new_group["tenant_id"],
        "rules": [],
    }
    assert cloud.get(f"{GROUPS}/{new_group['id']}") == {"security_group": new_group}
    assert cloud.get(f"/network/v2.0/security-groups/{new_group['id']}")["security_group"]["name"] == "web"
    body = {"security_group": {"name": "shop", "description": ""}}
    status, changed = cloud.ask("PUT", f"{GROUPS}/{new_group['id']}", body)
    assert (status, changed["security_group"]["name"]) == (200, "shop")
    assert [each["name"] for each in cloud.get(GROUPS)["security_groups"]] == ["default", "shop"]
    assert len(cloud.get(f"{GROUPS}?limit=1")["security_groups"]) == 1
    assert [each["name"] for each in cloud.get(f"{GROUPS}?offset=1&all_tenants=1")["security_groups"]] == ["shop"]
    assert cloud.ask("DELETE", f"{GROUPS}/{new_group['id']}") == (202, None)
    assert cloud.ask("GET", f"{GROUPS}/{new_group['id']}")[0] == 404


def test_rules_are_of_what_comes_in(cloud: Cloud) -> None:
    web, front = group(cloud)["id"], group(cloud, "front")
    status, answer = rule(cloud, web, ip_protocol="tcp", from_port="22", to_port=23, cidr="10.0.0.0/24")
    security_group_rule = answer["security_group_rule"]
    assert (status, security_group_rule) == (
        200,
        {
            "id": security_group_rule["id"],
            "parent_group_id": web,
            "ip_protocol": "tcp",
            "from_port": 22,
            "to_port": 23,
            "group": {},
            "ip_range": {"cidr": "10.0.0.0/24"},
        },
    )
    assert cloud.get(f"{GROUPS}/{web}")["security_group"]["rules"] == [security_group_rule]
    of_group = rule(cloud, web, ip_protocol="UDP", group_id=front["id"])[1]["security_group_rule"]
    assert of_group["group"] == {"name": "front", "tenant_id": front["tenant_id"]}
    assert (of_group["from_port"], of_group["to_port"], of_group["ip_range"]) == (1, 65535, {})
    ping = rule(cloud, web, ip_protocol="icmp", from_port=-1, to_port=-1)[1]["security_group_rule"]
    assert (ping["from_port"], ping["ip_range"]) == (-1, {"cidr": "0.0.0.0/0"})
    assert cloud.ask("DELETE", f"{GROUPS}/{front['id']}")[0] == 202
    left = cloud.get(f"{GROUPS}/{web}")["security_group"]["rules"]
    assert of_group["id"] not in [left_group["id"] for left_group in left], "it named the group that is gone"
    for each in (security_group_rule, ping):
        assert cloud.ask("DELETE", f"{RULES}/{each['id']}") == (202, None)
    assert cloud.get(f"{GROUPS}/{web}")["security_group"]["rules"] == []
    assert cloud.ask("DELETE", f"{RULES}/{security_group_rule['id']}")[0] == 404


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        ({}, 400),
        ({"ip_protocol": "tcp"}, 400),
        ({"ip_protocol": "tcp", "from_port": 22}, 400),
        ({"ip_protocol": "tcp", "from_port": "a", "to_port": "b"}, 400),
        ({"ip_protocol": "tcp", "from_port": 2, "to_port": 1}, 400),
        ({"ip_protocol": "tcp", "from_port": 22, "to_port": 65536}, 400),
        ({"ip_protocol": "tcp", "from_port": 22, "to_port": 22, "cidr": "nowhere"}, 400),
        ({"ip_protocol": "tcp", "from_port": 22, "to_port": 22, "cidr": "10.0.0.0/0"}, 400),
        ({"ip_protocol": "nothing", "from_port": 22, "to_port": 22}, 400),
        ({"ip_protocol": "tcp", "from_port": 22, "to_port": 22, "group_id": str(uuid.uuid4())}, 404),
        ({"ip_protocol": "tcp", "from_port": 22, "to_port": 22, "parent_group_id": str(uuid.uuid4())}, 404),
        ({"ip_protocol": "tcp", "from_port": 22, "to_port": 22, "parent_group_id": "web"}, 400),
        ({"ip_protocol": "tcp", "from_port": 22, "to_port": 22, "group_id": "7"}, 400),
    ],
)
def test_what_can_be_no_rule_is_refused(cloud: Cloud, wanted: Json, status: int) -> None:
    parent = group(cloud)["id"]
    body = {"security_group_rule": {"parent_group_id": parent, **wanted}}
    assert cloud.ask("POST", RULES, body)[0] == status
    assert cloud.get(f"{GROUPS}/{parent}")["security_group"]["rules"] == []


def test_bug_the_range_of_a_rule_loses_its_address(cloud: Cloud) -> None:
    web = group(cloud)["id"]
    for given in ("10.2.3.124/24", "fd00::1/64"):
        created = rule(cloud, web, ip_protocol="tcp", from_port=1, to_port=1, cidr=given)[1]
        assert created["security_group_rule"]["ip_range"] == {"cidr": given}


def test_a_rule_that_there_is_and_ids_that_are_none_are_bad_requests(cloud: Cloud) -> None:
    parent = group(cloud)["id"]
    rule_fields = {"ip_protocol": "tcp", "from_port": 22, "to_port": 22}
    assert [rule(cloud, parent, **rule_fields)[0] for _ in range(2)] == [200, 400]
    for method, path in (("GET", GROUPS), ("DELETE", GROUPS), ("DELETE", RULES)):
        assert cloud.ask(method, f"{path}/x")[0] == 400
        assert cloud.ask(method, f"{path}/{uuid.uuid4()}")[0] == 404
        assert cloud.ask(method, f"{path}/{uuid.uuid4()}", **at("2.36"))[0] == 404


def test_quota_limits_groups(cloud: Cloud) -> None:
    project = group(cloud)["tenant_id"]
    quota = {"quota": {"security_group": 1}}
    assert cloud.ask("PUT", f"/network/v2.0/quotas/{project}", quota)[0] == 200
    body = {"security_group": {"name": "more", "description": ""}}
    assert cloud.ask("POST", GROUPS, body)[0] == 403
