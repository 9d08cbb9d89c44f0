"""`/v2.0/quotas`: limits of projects, what is used of them, and who may see them."""

from typing import Any

from tests.functional.api.conftest import Cloud
from tests.functional.api.network.conftest import Ask
from tests.functional.api.network.test_networks import make, network, refused

PATH = "/network/v2.0/quotas"
DEFAULTS = {
    "network": 100,
    "subnet": 100,
    "port": 500,
    "security_group": 10,
    "security_group_rule": 100,
    "address_group": 100,
    "subnetpool": 100,
}
NOT_SERVED = dict.fromkeys(("router", "floatingip", "rbac_policy"), -1)


def project_of(cloud: Cloud) -> str:
    return str(network(cloud)["project_id"])


def put(cloud: Cloud, project_id: str, **limits: Any) -> tuple[int, Any]:
    return cloud.ask("PUT", f"{PATH}/{project_id}", {"quota": limits})


def test_limits_of_a_project_are_the_defaults_until_they_are_set(cloud: Cloud) -> None:
    for name, limit in DEFAULTS.items():
        own = f"{name}s" if name in ("network", "subnet", "port") else name
        cloud.conf.set_override(own, limit, group="quota")
    every = DEFAULTS | NOT_SERVED
    assert cloud.get(PATH) == {"quotas": []}
    assert cloud.get(f"{PATH}/p1") == cloud.get(f"{PATH}/p1/default") == {"quota": every}
    assert put(cloud, "p1", port=7, network=-1) == (200, {"quota": {**every, "port": 7, "network": -1}})
    assert cloud.get(f"{PATH}/p1/default") == {"quota": every}
    (listed,) = cloud.get(PATH)["quotas"]
    assert (listed["project_id"], listed["tenant_id"], listed["port"]) == ("p1", "p1", 7)
    assert cloud.get(f"{PATH}/p2") == {"quota": every}


def test_what_is_used_is_counted(cloud: Cloud) -> None:
    project_id = project_of(cloud)
    details = cloud.get(f"{PATH}/{project_id}/details.json")["quota"]
    assert details.keys() == (DEFAULTS | NOT_SERVED).keys()
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
    for limits in ({"network": -2}, {"network": 2**31}, {"elephant": 1}, {"network": "many"}):
        assert put(cloud, "p1", **limits)[0] == 400, limits
    assert cloud.ask("GET", f"{PATH}/{'p' * 256}")[0] == 400
    assert cloud.get(PATH) == {"quotas": []}


def test_limits_of_what_is_not_served_are_kept(cloud: Cloud) -> None:
    """`openstack quota set` sends the limits of several services one after the other: a refusal would leave half of them."""
    assert put(cloud, "p1", router=3, floatingip=0, rbac_policy=1, force=True)[0] == 200
    shown = cloud.get(f"{PATH}/p1")["quota"]
    assert [shown[name] for name in ("router", "floatingip", "rbac_policy")] == [3, 0, 1]
    assert cloud.get(f"{PATH}/p1/details")["quota"]["router"] == {"limit": 3, "used": 0, "reserved": 0}
    assert cloud.ask("DELETE", f"{PATH}/p1")[0] == 204
    assert cloud.get(f"{PATH}/p1")["quota"]["router"] == -1


def test_bug_user_did_not_see_the_limits_of_the_own_network(cloud: Cloud, alice: Ask) -> None:
    """As in Neutron: `openstack quota show` of a tenant and Horizon's overview read them."""
    for path in ("", "/default", "/details"):
        assert alice("GET", f"{PATH}/p2{path}")[0] == 200
        assert alice("GET", f"{PATH}/admin{path}")[0] == 403
    assert alice("GET", PATH)[0] == 403
    assert alice("PUT", f"{PATH}/p2", {"quota": {"port": 9}})[0] == 403
    assert alice("DELETE", f"{PATH}/p2")[0] == 403
