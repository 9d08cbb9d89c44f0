"""`/v2.0/quotas`: limits of projects, what is used of them, and who may see them."""

from typing import Any

from tests.functional.api.conftest import Cloud
from tests.functional.api.network.test_networks import make, network, refused

PATH = "/network/v2.0/quotas"
DEFAULTS = {"network": 100, "subnet": 100, "port": 500, "security_group": 10, "security_group_rule": 100}


def project_of(cloud: Cloud) -> str:
    return str(network(cloud)["project_id"])


def put(cloud: Cloud, project_id: str, **limits: Any) -> tuple[int, Any]:
    return cloud.ask("PUT", f"{PATH}/{project_id}", {"quota": limits})


def test_limits_of_a_project_are_the_defaults_until_they_are_set(cloud: Cloud) -> None:
    for name, limit in DEFAULTS.items():
        own = name if name.startswith("security") else f"{name}s"
        cloud.conf.set_override(own, limit, group="quota")
    assert cloud.get(PATH) == {"quotas": []}
    assert cloud.get(f"{PATH}/p1") == cloud.get(f"{PATH}/p1/default") == {"quota": DEFAULTS}
    assert put(cloud, "p1", port=7, network=-1) == (200, {"quota": {**DEFAULTS, "port": 7, "network": -1}})
    assert cloud.get(f"{PATH}/p1/default") == {"quota": DEFAULTS}
    (listed,) = cloud.get(PATH)["quotas"]
    assert (listed["project_id"], listed["tenant_id"], listed["port"]) == ("p1", "p1", 7)
    assert cloud.get(f"{PATH}/p2") == {"quota": DEFAULTS}


def test_what_is_used_is_counted(cloud: Cloud) -> None:
    project_id = project_of(cloud)
    details = cloud.get(f"{PATH}/{project_id}/details.json")["quota"]
    assert details.keys() == DEFAULTS.keys()
    assert details["network"] == {"limit": -1, "used": 1, "reserved": 0}
    assert details["port"]["used"] == 0


def test_limit_that_is_set_is_kept(cloud: Cloud) -> None:
    project_id = project_of(cloud)
    assert put(cloud, project_id, network=2)[0] == 200
    make(cloud, "network")
    status, _, message = refused(cloud, "network")
    assert (status, "Quota exceeded for networks" in message) == (403, True)


def test_deleted_limits_are_the_defaults_again_and_those_of_compute_stay(cloud: Cloud) -> None:
    default = cloud.get(f"{PATH}/p1")
    put(cloud, "p1", port=7, network=-1)
    put(cloud, "p2", port=8)
    assert cloud.ask("PUT", "/v2.1/os-quota-sets/p1", {"quota_set": {"cores": 5}})[0] == 200
    assert cloud.ask("DELETE", f"{PATH}/p1") == (204, None)
    assert cloud.get(f"{PATH}/p1") == default
    assert [each["project_id"] for each in cloud.get(PATH)["quotas"]] == ["p2"]
    assert cloud.get("/v2.1/os-quota-sets/p1")["quota_set"]["cores"] == 5
    assert cloud.ask("DELETE", "/v2.1/os-quota-sets/p2")[0] == 202
    assert cloud.get(f"{PATH}/p2")["quota"]["port"] == 8
    assert cloud.ask("DELETE", f"{PATH}/p1") == (204, None), "nothing to delete"


def test_limit_below_what_is_used_is_refused_where_that_is_checked(cloud: Cloud) -> None:
    project_id = project_of(cloud)
    assert put(cloud, project_id, network=0, check_limit=True)[0] == 400
    assert put(cloud, project_id, network=0)[0] == 200


def test_what_is_no_limit_is_refused(cloud: Cloud) -> None:
    for limits in ({"network": -2}, {"network": 2**31}, {"router": 1}, {"network": "many"}):
        assert put(cloud, "p1", **limits)[0] == 400, limits
    assert cloud.ask("GET", f"{PATH}/{'p' * 256}")[0] == 400
    assert cloud.get(PATH) == {"quotas": []}
