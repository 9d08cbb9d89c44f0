"""Subnet pools, and subnets with ranges of them."""

import pytest

from tests.functional.api.conftest import Cloud
from tests.functional.api.network.conftest import Ask
from tests.functional.api.network.test_networks import UNKNOWN, Json
from tests.functional.api.network.test_networks import network as made_network

ROOT = "/network/v2.0"
POOLS = f"{ROOT}/subnetpools"


def make(cloud: Cloud, **values: object) -> tuple[int, Json]:
    body = {"name": "pool", "prefixes": ["10.10.0.0/16"], "default_prefixlen": 26, **values}
    return cloud.ask("POST", POOLS, {"subnetpool": body})


def made(cloud: Cloud, **values: object) -> str:
    status, answer = make(cloud, **values)
    assert status == 201, answer
    return str(answer["subnetpool"]["id"])


def network(cloud: Cloud) -> str:
    return str(made_network(cloud)["id"])


def subnet(cloud: Cloud, on: str, **values: object) -> tuple[int, Json]:
    return cloud.ask("POST", f"{ROOT}/subnets", {"subnet": {"network_id": on, "ip_version": 4, **values}})


def test_pool_is_made_changed_and_deleted(cloud: Cloud) -> None:
    status, answer = make(cloud, prefixes=["10.11.0.0/16", "10.10.0.0/16", "10.10.3.0/24"])
    pool = answer["subnetpool"]
    assert (status, pool["prefixes"]) == (201, ["10.10.0.0/15"]), "joined, as in Neutron"
    lengths = [pool[f"{which}_prefixlen"] for which in ("min", "default", "max")]
    assert (lengths, pool["ip_version"], pool["default_quota"]) == ([8, 26, 32], 4, None)
    assert (pool["is_default"], pool["shared"], pool["address_scope_id"]) == (False, False, None)
    path = f"{POOLS}/{pool['id']}"
    assert cloud.get(f"{POOLS}?name=pool")["subnetpools"] == [pool]
    changes = {"name": "new", "default_prefixlen": 24, "prefixes": ["10.10.0.0/15", "10.20.0.0/16"]}
    status, answer = cloud.ask("PUT", path, {"subnetpool": changes})
    assert (status, answer["subnetpool"]["prefixes"]) == (200, ["10.10.0.0/15", "10.20.0.0/16"])
    assert cloud.ask("PUT", path, {"subnetpool": {"prefixes": ["10.20.0.0/16"]}})[0] == 400, "prefixes stay"
    assert cloud.ask("PUT", path, {"subnetpool": {"min_prefixlen": 30}})[0] == 400
    assert cloud.ask("PUT", f"{path}/tags/a")[0] == 201
    assert cloud.ask("DELETE", path) == (204, None)
    assert cloud.ask("GET", path)[0] == 404


@pytest.mark.parametrize(
    "values",
    [
        {"prefixes": []},
        {"prefixes": ["x"]},
        {"prefixes": ["10.0.0.0/8", "2001:db8::/32"]},
        {"min_prefixlen": 28, "max_prefixlen": 24},
        {"max_prefixlen": 33},
        {"default_prefixlen": 7},
        {"address_scope_id": UNKNOWN},
        {"name": ""},
    ],
)
def test_invalid_pool_is_refused(cloud: Cloud, values: Json) -> None:
    assert make(cloud, **values)[0] == 400


def test_subnets_get_ranges_of_the_pool(cloud: Cloud) -> None:
    pool, blue = made(cloud), network(cloud)
    first = subnet(cloud, blue, subnetpool_id=pool)[1]["subnet"]
    assert (first["cidr"], first["gateway_ip"], first["subnetpool_id"]) == ("10.10.0.0/26", "10.10.0.1", pool)
    assert first["allocation_pools"] == [{"start": "10.10.0.2", "end": "10.10.0.62"}]
    bare = subnet(cloud, blue, subnetpool_id=pool, prefixlen=24, gateway_ip=None)[1]["subnet"]
    assert (bare["cidr"], bare["gateway_ip"]) == ("10.10.1.0/24", None)
    assert subnet(cloud, blue, subnetpool_id=pool)[1]["subnet"]["cidr"] == "10.10.0.64/26", "the smallest free block"
    chosen = subnet(cloud, blue, subnetpool_id=pool, cidr="10.10.9.0/24")[1]["subnet"]
    assert chosen["subnetpool_id"] == pool
    for cidr in ("10.10.9.128/25", "10.99.0.0/24"):
        assert subnet(cloud, network(cloud), subnetpool_id=pool, cidr=cidr)[0] == 409, cidr
    assert [each["id"] for each in cloud.get(f"{ROOT}/subnets?subnetpool_id={pool}")["subnets"]] == [
        each["id"] for each in cloud.get(f"{ROOT}/subnets")["subnets"]
    ]
    status, answer = cloud.ask("DELETE", f"{POOLS}/{pool}")
    assert (status, answer["NeutronError"]["type"]) == (400, "SubnetPoolDeleteError"), "Neutron answers 400, too"
    assert cloud.ask("DELETE", f"{ROOT}/networks/{blue}")[0] == 204
    assert subnet(cloud, network(cloud), subnetpool_id=pool)[1]["subnet"]["cidr"] == "10.10.0.0/26", "free again"


def test_contradictions_are_refused(cloud: Cloud) -> None:
    pool, blue = made(cloud, min_prefixlen=20, max_prefixlen=28), network(cloud)
    for values in (
        {},
        {"prefixlen": 24},
        {"subnetpool_id": pool, "use_default_subnetpool": True},
        {"use_default_subnetpool": True},
        {"subnetpool_id": pool, "cidr": "10.10.0.0/24", "prefixlen": 24},
        {"subnetpool_id": pool, "prefixlen": 19},
        {"subnetpool_id": pool, "prefixlen": 29},
        {"subnetpool_id": pool, "cidr": "10.10.0.0/29"},
        {"subnetpool_id": pool, "ip_version": 6},
        {"subnetpool_id": pool, "allocation_pools": [{"start": "10.10.0.9", "end": "10.10.0.10"}]},
        {"subnetpool_id": pool, "gateway_ip": "10.99.0.1"},
    ):
        assert subnet(cloud, blue, **values)[0] == 400, values
    assert subnet(cloud, blue, subnetpool_id=UNKNOWN)[0] == 404
    assert subnet(cloud, blue, cidr="10.0.0.0/24")[0] == 201
    status, answer = subnet(cloud, blue, subnetpool_id=pool)
    assert (status, answer["NeutronError"]["type"]) == (400, "NetworkSubnetPoolAffinityError")


def test_default_pool_of_each_ip_version(cloud: Cloud) -> None:
    four = made(cloud, is_default=True, shared=True)
    six = made(cloud, is_default=True, prefixes=["2001:db8::/48"], default_prefixlen=64)
    assert make(cloud, is_default=True)[0] == 400
    blue = network(cloud)
    for version, pool in ((4, four), (6, six)):
        made_of = subnet(cloud, blue, ip_version=version, use_default_subnetpool=True)[1]["subnet"]
        assert made_of["subnetpool_id"] == pool
    assert [each["id"] for each in cloud.get(f"{POOLS}?is_default=true")["subnetpools"]] == [four, six]
    assert cloud.ask("PUT", f"{POOLS}/{four}", {"subnetpool": {"is_default": False}})[0] == 200
    assert make(cloud, is_default=True)[0] == 201


def test_users_may_not_share_a_pool_but_use_a_shared_one(cloud: Cloud, alice: Ask) -> None:
    shared, private = made(cloud, shared=True), made(cloud)
    for name in ("shared", "is_default"):
        assert alice("POST", POOLS, {"subnetpool": {"name": "p", "prefixes": ["10.0.0.0/8"], name: True}})[0] == 403
    assert [each["id"] for each in alice("GET", POOLS)[1]["subnetpools"]] == [shared]
    on = alice("POST", f"{ROOT}/networks", {"network": {}})[1]["network"]["id"]
    for pool, status in ((shared, 201), (private, 404)):
        body = {"network_id": on, "ip_version": 4, "subnetpool_id": pool}
        assert alice("POST", f"{ROOT}/subnets", {"subnet": body})[0] == status
    assert alice("PUT", f"{POOLS}/{shared}", {"subnetpool": {"name": "x"}})[0] == 403
    assert alice("DELETE", f"{POOLS}/{shared}")[0] == 403


def test_quota_of_a_pool_and_of_pools(cloud: Cloud) -> None:
    pool, blue = made(cloud, default_quota=96), network(cloud)
    assert subnet(cloud, blue, subnetpool_id=pool)[0] == 201
    status, answer = subnet(cloud, blue, subnetpool_id=pool)
    assert (status, answer["NeutronError"]["type"]) == (409, "SubnetPoolQuotaExceeded")
    assert subnet(cloud, blue, subnetpool_id=pool, prefixlen=27)[0] == 201, "96 addresses: exactly the quota"
    assert cloud.ask("PUT", f"{ROOT}/quotas/admin", {"quota": {"subnetpool": 1}})[0] == 200
    assert make(cloud)[0] == 403
