"""Several resources in one request: all of them are made, or none."""

from typing import Any

import pytest

from tests.functional.api.conftest import Cloud
from tests.functional.api.network.overview.test_quotas import put
from tests.functional.api.network.test_networks import listed, make, network, port, subnet

Json = dict[str, Any]
ROOT = "/network/v2.0"


def ask(cloud: Cloud, kind: str, *several: Json) -> tuple[int, Any]:
    plural = f"{kind}s"
    return cloud.ask("POST", f"{ROOT}/{plural.replace('_', '-')}", {plural: several})


def made(cloud: Cloud, kind: str, *several: Json) -> list[Json]:
    status, answer = ask(cloud, kind, *several)
    assert status == 201, answer
    created: list[Json] = answer[f"{kind}s"]
    return created


def groups(cloud: Cloud) -> list[str]:
    return sorted(security_group["name"] for security_group in cloud.get(f"{ROOT}/security-groups")["security_groups"])


def test_networks_subnets_and_ports(cloud: Cloud) -> None:
    blue, green = made(cloud, "network", {"name": "blue"}, {"name": "green", "mtu": 1400})
    assert [blue["name"], green["name"], green["mtu"]] == ["blue", "green", 1400]
    ranges = [(blue, "10.1.0.0/24"), (blue, "10.2.0.0/24"), (green, "10.3.0.0/24")]
    bodies = [{"network_id": new_network["id"], "ip_version": 4, "cidr": cidr} for new_network, cidr in ranges]
    assert [new_subnet["cidr"] for new_subnet in made(cloud, "subnet", *bodies)] == [cidr for _, cidr in ranges]
    fixed = {"network_id": green["id"], "fixed_ips": [{"ip_address": "10.3.0.9"}]}
    ports = made(cloud, "port", {"network_id": blue["id"]}, fixed, {"network_id": blue["id"], "name": "c"})
    assert [port["network_id"] for port in ports] == [blue["id"], green["id"], blue["id"]]
    assert [port["fixed_ips"][0]["ip_address"] for port in ports] == ["10.1.0.2", "10.3.0.9", "10.1.0.3"]
    assert [port["id"] for port in listed(cloud, "port")] == [port["id"] for port in ports]
    assert [network["id"] for network in listed(cloud, "network")] == [blue["id"], green["id"]]


def test_security_groups_and_rules(cloud: Cloud) -> None:
    web, back = made(cloud, "security_group", {"name": "web"}, {"name": "back"})
    assert [len(new_group["security_group_rules"]) for new_group in (web, back)] == [2, 2]
    ssh = {"security_group_id": web["id"], "direction": "ingress", "protocol": "tcp", "port_range_min": 22}
    ssh |= {"port_range_max": 22}
    from_web = {"security_group_id": back["id"], "direction": "ingress", "remote_group_id": web["id"]}
    rules = made(cloud, "security_group_rule", ssh, from_web, {**ssh, "port_range_min": 21})
    assert [rule["port_range_min"] for rule in rules] == [22, None, 21]
    assert rules[1]["remote_group_id"] == web["id"]
    shown = cloud.get(f"{ROOT}/security-groups/{web['id']}")["security_group"]["security_group_rules"]
    assert [shown_rule["id"] for shown_rule in shown[2:]] == [rules[0]["id"], rules[2]["id"]]


def test_one_that_fails_makes_none(cloud: Cloud) -> None:
    blue = network(cloud, name="blue")
    subnet(cloud, blue)
    flat = {"provider:network_type": "flat", "provider:physical_network": "dc1"}
    assert ask(cloud, "network", {"name": "a"}, flat, {**flat, "name": "b"})[0] == 409
    assert ask(cloud, "network", {"name": "a"}, {"mtu": 1})[0] == 400
    cidrs = ("10.2.0.0/24", "10.2.0.128/25")
    bodies = [{"network_id": blue["id"], "ip_version": 4, "cidr": cidr} for cidr in cidrs]
    assert ask(cloud, "subnet", *bodies)[0] == 409
    address = {"network_id": blue["id"], "fixed_ips": [{"ip_address": "10.1.0.9"}]}
    assert ask(cloud, "port", {"network_id": blue["id"]}, address, address)[0] == 409
    web = make_group(cloud, "web")
    ssh = {"security_group_id": web["id"], "direction": "ingress", "protocol": "tcp"}
    status, answer = ask(cloud, "security_group_rule", ssh, ssh)
    assert (status, answer["NeutronError"]["type"]) == (409, "DuplicateSecurityGroupRuleInPost")
    made(cloud, "security_group_rule", ssh)
    status, answer = ask(cloud, "security_group_rule", {**ssh, "protocol": "udp"}, ssh)
    assert (status, answer["NeutronError"]["type"]) == (409, "SecurityGroupRuleExists")
    assert ask(cloud, "security_group", {"name": "one"}, {"name": "default"})[0] == 409
    assert [network["name"] for network in listed(cloud, "network")] == ["blue"]
    assert [subnet["cidr"] for subnet in listed(cloud, "subnet")] == ["10.1.0.0/24"]
    assert listed(cloud, "port") == []
    assert groups(cloud) == ["default", "web"]
    assert len(cloud.get(f"{ROOT}/security-groups/{web['id']}")["security_group"]["security_group_rules"]) == 3


def make_group(cloud: Cloud, name: str) -> Json:
    return made(cloud, "security_group", {"name": name})[0]


@pytest.mark.parametrize(
    ("kind", "limit"), [("network", "network"), ("port", "port"), ("security_group", "security_group")]
)
def test_quota_holds_for_all_together(cloud: Cloud, kind: str, limit: str) -> None:
    blue = network(cloud)
    project_id = blue["project_id"]
    groups(cloud)
    assert put(cloud, project_id, **{limit: 2})[0] == 200
    bodies: dict[str, Json] = {"network": {}, "port": {"network_id": blue["id"]}, "security_group": {"name": "g"}}
    used = {"network": 1, "port": 0, "security_group": 1}[kind]
    fitting = [bodies[kind]] * (2 - used)
    assert ask(cloud, kind, *fitting, bodies[kind])[0] == 403
    assert len(made(cloud, kind, *fitting)) == 2 - used
    assert ask(cloud, kind, bodies[kind])[0] == 403


def test_a_body_has_one_or_several(cloud: Cloud) -> None:
    invalid: list[Json] = [{}, {"networks": []}, {"network": {}, "networks": [{}]}, {"networks": {}}, {"network": [{}]}]
    for body in invalid:
        assert cloud.ask("POST", f"{ROOT}/networks", body)[0] == 400, body
    assert listed(cloud, "network") == []
    assert port(cloud, network(cloud))["status"] == "DOWN"
    assert make(cloud, "network", name="x")["name"] == "x"
