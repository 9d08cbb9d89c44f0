"""Security groups and their rules over HTTP, as Neutron answers; those of ports and of servers."""

from pathlib import Path
from typing import Any

import bcrypt
import pytest

from minova.context import RequestContext
from tests.functional.api.conftest import Cloud
from tests.functional.api.network.test_networks import UNKNOWN, network, port, refused, subnet
from tests.unit.api.access.test_auth import basic

Json = dict[str, Any]
GROUPS, RULES = "/network/v2.0/security-groups", "/network/v2.0/security-group-rules"


def group(cloud: Cloud, name: str = "web", **values: Any) -> Json:
    status, answer = cloud.ask("POST", GROUPS, {"security_group": {"name": name, **values}})
    assert status == 201, answer
    security_group: Json = answer["security_group"]
    return security_group


def rule(cloud: Cloud, of: Json, **values: Any) -> tuple[int, Json]:
    body = {"security_group_id": of["id"], "direction": "ingress", **values}
    status, answer = cloud.ask("POST", RULES, {"security_group_rule": body})
    return status, answer.get("security_group_rule") or answer["NeutronError"]


def default_of(cloud: Cloud) -> Json:
    (security_group,) = cloud.get(GROUPS, query_string="name=default")["security_groups"]
    return dict(security_group)


def directions(of: Json) -> list[tuple[str, str, bool]]:
    return [
        (
            security_group_rule["direction"],
            security_group_rule["ethertype"],
            security_group_rule["remote_group_id"] == of["id"],
        )
        for security_group_rule in of["security_group_rules"]
    ]


def test_project_has_a_default_group_from_its_first_look(cloud: Cloud) -> None:
    default = default_of(cloud)
    assert directions(default) == [
        ("egress", "IPv4", False),
        ("egress", "IPv6", False),
        ("ingress", "IPv4", True),
        ("ingress", "IPv6", True),
    ]
    assert default_of(cloud)["id"] == default["id"]
    path = f"{GROUPS}/{default['id']}"
    assert cloud.ask("PUT", path, {"security_group": {"name": "other"}})[0] == 409
    assert cloud.ask("POST", GROUPS, {"security_group": {"name": "default"}})[0] == 409


def test_only_administrators_delete_a_default_group_and_it_comes_back(cloud: Cloud, tmp_path: Path) -> None:
    default = default_of(cloud)
    path = f"{GROUPS}/{default['id']}"
    file = tmp_path / "htpasswd"
    file.write_text(f"alice:{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}\n")
    users = Cloud(
        tmp_path, auth_strategy="http_basic", http_basic_auth_user_file=str(file), user_roles=["alice:admin:member"]
    )
    status, answer = users.ask("DELETE", path, headers={"Authorization": basic(b"alice:secret")})
    users.close()
    assert (status, answer["NeutronError"]["type"]) == (409, "SecurityGroupCannotRemoveDefault")
    assert cloud.ask("DELETE", path) == (204, None)
    again = default_of(cloud)
    assert again["id"] != default["id"]
    assert directions(again) == directions(default)


def test_group_is_made_changed_and_deleted(cloud: Cloud) -> None:
    new_group = group(cloud, description="for web servers")
    assert directions(new_group) == [("egress", "IPv4", False), ("egress", "IPv6", False)]
    assert new_group == new_group | {"name": "web", "project_id": "admin", "stateful": True, "revision_number": 1}
    path = f"{GROUPS}/{new_group['id']}"
    status, answer = cloud.ask("PUT", path, {"security_group": {"name": "front"}})
    assert (status, answer["security_group"]["name"], answer["security_group"]["revision_number"]) == (200, "front", 2)
    assert cloud.get(path)["security_group"]["description"] == "for web servers"
    assert cloud.ask("DELETE", path) == (204, None)
    status, answer = cloud.ask("GET", path)
    assert (status, answer["NeutronError"]["type"]) == (404, "SecurityGroupNotFound")
    assert cloud.get(RULES, query_string=f"security_group_id={new_group['id']}")["security_group_rules"] == []


def test_rules_come_and_go(cloud: Cloud) -> None:
    new_group = group(cloud)
    status, opened = rule(
        cloud, new_group, protocol="tcp", port_range_min=22, port_range_max=22, remote_ip_prefix="10.0.0.1/8"
    )
    assert status == 201, opened
    assert (opened["remote_ip_prefix"], opened["ethertype"], opened["project_id"]) == ("10.0.0.1/8", "IPv4", "admin")
    assert cloud.get(f"{RULES}/{opened['id']}")["security_group_rule"] == opened
    # The same one in other words.
    status, again = rule(
        cloud, new_group, protocol=6, port_range_min=22, port_range_max=22, remote_ip_prefix="10.0.0.0/8"
    )
    assert (status, again["type"]) == (409, "SecurityGroupRuleExists")
    security_group_rules = cloud.get(RULES, query_string=f"security_group_id={new_group['id']}&direction=ingress")[
        "security_group_rules"
    ]
    assert security_group_rules == [opened]
    assert len(cloud.get(f"{GROUPS}/{new_group['id']}")["security_group"]["security_group_rules"]) == 3
    assert cloud.ask("DELETE", f"{RULES}/{opened['id']}")[0] == 204
    assert cloud.ask("DELETE", f"{RULES}/{opened['id']}")[0] == 404


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"protocol": "elephant"}, "Invalid input for protocol"),
        ({"protocol": "icmpv6"}, "icmpv6 is of IPv6"),
        ({"port_range_min": 22, "port_range_max": 22}, "Must also specify protocol"),
        ({"protocol": "tcp", "port_range_min": 23, "port_range_max": 22}, "port_range_min must be <="),
        ({"protocol": "tcp", "port_range_min": 0, "port_range_max": 22}, "from 1 to 65535"),
        ({"protocol": "tcp", "port_range_min": 22}, "port_range_min must be <="),
        ({"protocol": "esp", "port_range_min": 22, "port_range_max": 22}, "ports of esp are not filtered"),
        ({"protocol": "136", "port_range_min": 22, "port_range_max": 22}, "ports of udplite are not filtered"),
        ({"protocol": "icmp", "port_range_max": 0}, "ICMP type (port-range-min) is missing"),
        ({"protocol": "icmp", "port_range_min": 256}, "type and code of ICMP"),
        ({"remote_ip_prefix": "10.0.0.0/33"}, "Invalid input for remote_ip_prefix"),
        ({"remote_ip_prefix": "fd00::/64"}, "Conflicting value ethertype IPv4"),
        ({"ethertype": "ARP"}, "ethertype"),
        ({"direction": "sideways"}, "direction"),
    ],
)
def test_rule_that_cannot_be_is_refused(cloud: Cloud, values: Json, reason: str) -> None:
    new_group = group(cloud)
    status, answer = rule(cloud, new_group, **values)
    assert (status, reason in answer["message"]) == (400, True), answer


def test_rule_names_a_range_or_a_group(cloud: Cloud) -> None:
    new_group, other = group(cloud), group(cloud, "clients")
    both = {"remote_ip_prefix": "10.0.0.0/8", "remote_group_id": other["id"]}
    status, answer = rule(cloud, new_group, **both)
    assert (status, answer["message"]) == (
        400,
        "Only one of remote_ip_prefix or remote_group_id or remote_address_group_id may be provided.",
    )
    assert rule(cloud, new_group, remote_group_id=UNKNOWN)[0] == 404
    assert rule(cloud, new_group, remote_group_id=other["id"])[0] == 201


def test_rules_that_name_a_group_go_with_it(cloud: Cloud) -> None:
    new_group, other = group(cloud), group(cloud, "clients")
    for of in (new_group, other):
        assert rule(cloud, of, remote_group_id=other["id"])[0] == 201
    assert rule(cloud, new_group, protocol="tcp")[0] == 201
    used = cloud.get("/network/v2.0/quotas/admin/details.json")["quota"]["security_group_rule"]["used"]
    assert cloud.ask("DELETE", f"{GROUPS}/{other['id']}") == (204, None)
    left = cloud.get(f"{GROUPS}/{new_group['id']}")["security_group"]["security_group_rules"]
    assert [(group_rule["direction"], group_rule["protocol"]) for group_rule in left] == [
        ("egress", None),
        ("egress", None),
        ("ingress", "tcp"),
    ]
    # Two egress rules of the group, and one that names it in each of both.
    now = cloud.get("/network/v2.0/quotas/admin/details.json")["quota"]["security_group_rule"]["used"]
    assert used - now == 4


def test_ports_have_groups(cloud: Cloud) -> None:
    blue, web = network(cloud), group(cloud)
    subnet(cloud, blue)
    plain = port(cloud, blue)
    assert plain["security_groups"] == [default_of(cloud)["id"]]
    assert (plain["port_security_enabled"], plain["allowed_address_pairs"]) == (True, [])
    new_port = port(cloud, blue, security_groups=[web["id"]], allowed_address_pairs=[{"ip_address": "10.1.0.64/28"}])
    assert new_port["security_groups"] == [web["id"]]
    pairs = [{"ip_address": "10.1.0.64/28", "mac_address": new_port["mac_address"]}]
    assert new_port["allowed_address_pairs"] == pairs
    assert cloud.ask("DELETE", f"{GROUPS}/{web['id']}")[0] == 409
    path = f"/network/v2.0/ports/{new_port['id']}"
    status, answer = cloud.ask("PUT", path, {"port": {"port_security_enabled": False}})
    assert (status, answer["NeutronError"]["type"]) == (409, "PortSecurityPortHasSecurityGroup")
    off = {"port_security_enabled": False, "security_groups": []}
    status, answer = cloud.ask("PUT", path, {"port": off})
    assert (status, answer["NeutronError"]["type"]) == (409, "AddressPairAndPortSecurityRequired")
    status, answer = cloud.ask("PUT", path, {"port": {**off, "allowed_address_pairs": []}})
    assert (status, answer["port"]["security_groups"], answer["port"]["port_security_enabled"]) == (200, [], False)
    assert cloud.ask("DELETE", f"{GROUPS}/{web['id']}")[0] == 204
    assert port(cloud, blue, port_security_enabled=False)["security_groups"] == []
    assert refused(cloud, "port", network_id=blue["id"], security_groups=[UNKNOWN])[:2] == (
        404,
        "SecurityGroupNotFound",
    )
    wrong = [{"ip_address": "10.1.0.65/28"}]
    assert refused(cloud, "port", network_id=blue["id"], allowed_address_pairs=wrong)[0] == 400
    assert cloud.get(path)["port"]["name"] == ""
    assert cloud.ask("DELETE", path)[0] == 204


def test_quotas_limit_groups_and_rules(cloud: Cloud) -> None:
    default_of(cloud)
    limits = {"security_group": 2, "security_group_rule": 7}
    cloud.conductor.update_quota_set(RequestContext(request_id="req-1"), project_id="admin", limits=limits, force=True)
    new_group = group(cloud)
    status, answer = cloud.ask("POST", GROUPS, {"security_group": {"name": "more"}})
    assert (status, "security_group" in answer["NeutronError"]["message"]) == (403, True)
    assert rule(cloud, new_group, protocol="tcp")[0] == 201
    status, answer = rule(cloud, new_group, protocol="udp")
    assert (status, "security_group_rule" in answer["message"]) == (403, True)
    assert cloud.ask("DELETE", f"{GROUPS}/{new_group['id']}")[0] == 204
    group(cloud)


def test_servers_have_the_groups_of_their_ports(stocked: Cloud) -> None:
    blue, web = network(stocked), group(stocked)
    subnet(stocked, blue)
    create = {**stocked.server, "security_groups": [{"name": "unknown"}]}
    assert stocked.ask("POST", "/v2.1/servers", {"server": create})[0] == 400
    status, answer = stocked.ask("POST", "/v2.1/servers", {"server": {**create, "security_groups": [{"name": "web"}]}})
    assert (status, answer["server"]["security_groups"]) == (202, [{"name": "web"}]), answer
    path = f"/v2.1/servers/{answer['server']['id']}"
    assert stocked.get(path)["server"]["security_groups"] == [{"name": "web"}]
    assert stocked.ask("POST", f"{path}/action", {"addSecurityGroup": {"name": "default"}})[0] == 202
    assert [security_group["name"] for security_group in stocked.get(path)["server"]["security_groups"]] == [
        "default",
        "web",
    ]
    assert stocked.ask("POST", f"{path}/action", {"removeSecurityGroup": {"name": web["id"]}})[0] == 202
    security_groups = stocked.get(f"{path}/os-security-groups")["security_groups"]
    assert [(security_group["name"], len(security_group["rules"])) for security_group in security_groups] == [
        ("default", 2)
    ]
    assert [rule["group"] for rule in security_groups[0]["rules"]] == [{"name": "default", "tenant_id": "admin"}] * 2
    for action, name, expected in (
        ("removeSecurityGroup", "web", 404),
        ("addSecurityGroup", "unknown", 404),
        ("addSecurityGroup", "", 400),
    ):
        assert stocked.ask("POST", f"{path}/action", {action: {"name": name}})[0] == expected


def test_an_id_of_a_group_wins_over_the_name_of_another(stocked: Cloud) -> None:
    subnet(stocked, network(stocked))
    wanted_group = group(stocked, "wanted")
    group(stocked, wanted_group["id"])
    create = {**stocked.server, "security_groups": [{"name": wanted_group["id"]}]}
    status, answer = stocked.ask("POST", "/v2.1/servers", {"server": create})
    assert status == 202, answer
    shown = stocked.get(f"/v2.1/servers/{answer['server']['id']}/os-security-groups")["security_groups"]
    assert [shown_group["id"] for shown_group in shown] == [wanted_group["id"]]


def test_port_has_sixteen_groups_at_most_whichever_way_they_come(stocked: Cloud) -> None:
    stocked.conductor.update_quota_set(
        RequestContext(request_id="req-1"), project_id="admin", limits={"security_group": -1}, force=True
    )
    blue = network(stocked)
    subnet(stocked, blue)
    names = [f"g{number}" for number in range(17)]
    ids = [group(stocked, name)["id"] for name in names]
    assert refused(stocked, "port", network_id=blue["id"], security_groups=ids)[0] == 400
    create = {**stocked.server, "security_groups": [{"name": name} for name in names]}
    status, answer = stocked.ask("POST", "/v2.1/servers", {"server": create})
    assert status == 400, answer
    create["security_groups"].pop()
    status, answer = stocked.ask("POST", "/v2.1/servers", {"server": create})
    assert (status, len(answer["server"]["security_groups"])) == (202, 16), answer
    path = f"/v2.1/servers/{answer['server']['id']}"
    status, answer = stocked.ask("POST", f"{path}/action", {"addSecurityGroup": {"name": "g16"}})
    assert (status, answer["badRequest"]["message"]) == (
        400,
        "Invalid input for security_groups. Reason: a port may have 16.",
    )
    assert len(stocked.get(path)["server"]["security_groups"]) == 16


@pytest.mark.parametrize(
    ("values", "ports", "source", "named"),
    [
        ({"protocol": "tcp"}, (1, 65535), {"cidr": "0.0.0.0/0"}, {}),
        ({"protocol": "udp", "ethertype": "IPv6"}, (1, 65535), {"cidr": "::/0"}, {}),
        ({"protocol": "icmp"}, (-1, -1), {"cidr": "0.0.0.0/0"}, {}),
        ({}, (None, None), {"cidr": "0.0.0.0/0"}, {}),
        ({"protocol": "tcp", "port_range_min": 22, "port_range_max": 23}, (22, 23), {"cidr": "0.0.0.0/0"}, {}),
        ({"protocol": "tcp", "remote_ip_prefix": "10.0.0.0/8"}, (1, 65535), {"cidr": "10.0.0.0/8"}, {}),
        ({"remote_group_id": "default"}, (None, None), {}, {"name": "default", "tenant_id": "admin"}),
    ],
)  # fmt: skip
def test_rules_of_a_server_have_their_source_and_ports(
    stocked: Cloud, values: Json, ports: tuple[int | None, int | None], source: Json, named: Json
) -> None:
    web = group(stocked)
    if "remote_group_id" in values:
        values = {**values, "remote_group_id": default_of(stocked)["id"]}
    assert rule(stocked, web, **values)[0] == 201
    subnet(stocked, network(stocked))
    create = {**stocked.server, "security_groups": [{"name": "web"}]}
    server = stocked.ask("POST", "/v2.1/servers", {"server": create})[1]["server"]
    (security_group,) = stocked.get(f"/v2.1/servers/{server['id']}/os-security-groups")["security_groups"]
    (shown,) = security_group["rules"]
    assert (shown["from_port"], shown["to_port"]) == ports
    assert (shown["ip_range"], shown["group"]) == (source, named)


def test_names_may_end_with_spaces_as_in_neutron(cloud: Cloud) -> None:
    status, created = cloud.ask("POST", "/network/v2.0/security-groups", {"security_group": {"name": " web "}})
    assert (status, created["security_group"]["name"]) == (201, " web ")
    for name in ("web\n", "a\u0007", " " * 256):
        assert cloud.ask("POST", "/network/v2.0/security-groups", {"security_group": {"name": name}})[0] == 400
