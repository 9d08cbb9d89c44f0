"""Address groups, and rules that name them."""

import pytest

from minova.db.networks import vifs
from minova.objects.network.address_groups import MAX_RANGES_OF_GROUP
from tests.functional.api.conftest import Cloud
from tests.functional.api.network.conftest import Ask
from tests.functional.api.network.test_networks import UNKNOWN, Json, network, port, subnet
from tests.functional.api.network.test_rules import ROOT, rule, web

GROUPS = f"{ROOT}/address-groups"


def make(cloud: Cloud, **values: object) -> tuple[int, Json]:
    return cloud.ask("POST", GROUPS, {"address_group": values})


def made(cloud: Cloud, *addresses: str) -> str:
    status, answer = make(cloud, name="offices", addresses=[*addresses])
    assert status == 201
    return str(answer["address_group"]["id"])


def change(cloud: Cloud, group: str, verb: str, *addresses: str) -> tuple[int, Json]:
    return cloud.ask("PUT", f"{GROUPS}/{group}/{verb}", {"addresses": [*addresses]})


def test_group_is_made_changed_and_deleted(cloud: Cloud) -> None:
    group = made(cloud, "10.1.2.3", "10.2.0.9/16", "2001:DB8::1/64", "10.2.0.0/16")
    shown = cloud.get(f"{GROUPS}/{group}")["address_group"]
    assert shown["addresses"] == ["10.1.2.3/32", "10.2.0.0/16", "2001:db8::/64"], "as Neutron: ranges, each once"
    assert cloud.get(f"{GROUPS}?name=offices")["address_groups"] == [shown]
    status, answer = cloud.ask("PUT", f"{GROUPS}/{group}", {"address_group": {"name": "x", "description": "d"}})
    assert (status, answer["address_group"]["name"]) == (200, "x")
    assert answer["address_group"]["addresses"] == shown["addresses"]
    assert answer["address_group"]["revision_number"] == shown["revision_number"] + 1
    assert cloud.ask("DELETE", f"{GROUPS}/{group}") == (204, None)
    assert cloud.ask("GET", f"{GROUPS}/{group}")[0] == 404


def test_addresses_are_added_and_removed_all_or_none(cloud: Cloud) -> None:
    group = made(cloud, "10.1.0.0/16")
    status, answer = change(cloud, group, "add_addresses", "10.1.9.9/16", "10.3.0.0/16")
    assert (status, answer["NeutronError"]["type"]) == (400, "AddressesAlreadyExist")
    assert "['10.1.0.0/16'] already exist" in answer["NeutronError"]["message"]
    assert change(cloud, group, "add_addresses", "10.3.0.1", "10.4.0.0/16")[1]["address_group"]["addresses"] == [
        *("10.1.0.0/16", "10.3.0.1/32", "10.4.0.0/16")
    ]
    status, answer = change(cloud, group, "remove_addresses", "10.1.0.0/16", "10.9.0.0/16")
    assert (status, answer["NeutronError"]["type"]) == (404, "AddressesNotFound")
    status, answer = change(cloud, group, "remove_addresses", "10.1.0.0/16", "10.3.0.1")
    assert (status, answer["address_group"]["addresses"]) == (200, ["10.4.0.0/16"])
    many = [f"10.200.0.{number}" for number in range(MAX_RANGES_OF_GROUP)]
    assert change(cloud, group, "add_addresses", *many)[0] == 400


@pytest.mark.parametrize("address", ["x", "10.0.0.0/33", "fe80::1%eth0", ""])
def test_invalid_address_is_refused(cloud: Cloud, address: str) -> None:
    assert make(cloud, addresses=[address])[0] == 400


def test_other_project_does_not_see_a_group(cloud: Cloud, alice: Ask) -> None:
    group = made(cloud, "10.1.0.0/16")
    assert alice("GET", GROUPS) == (200, {"address_groups": []})
    for method, path, body in (
        ("GET", "", None),
        ("PUT", "", {"address_group": {"name": "x"}}),
        ("PUT", "/add_addresses", {"addresses": ["10.9.0.0/16"]}),
        ("DELETE", "", None),
    ):
        assert alice(method, f"{GROUPS}/{group}{path}", body)[0] == 404
    of = alice("POST", f"{ROOT}/security-groups", {"security_group": {"name": "web"}})[1]["security_group"]["id"]
    body = {"security_group_id": of, "direction": "ingress", "remote_address_group_id": group}
    assert alice("POST", f"{ROOT}/security-group-rules", {"security_group_rule": body})[0] == 404


def test_groups_count_against_the_quota(cloud: Cloud) -> None:
    limits = {"quota": {"address_group": 1}}
    assert cloud.ask("PUT", f"{ROOT}/quotas/admin", limits)[0] == 200
    group = made(cloud)
    assert make(cloud)[0] == 403
    used = cloud.get(f"{ROOT}/quotas/admin/details")["quota"]["address_group"]
    assert (used["limit"], used["used"]) == (1, 1)
    assert cloud.ask("DELETE", f"{GROUPS}/{group}")[0] == 204
    assert make(cloud)[0] == 201


def test_rule_names_a_group(cloud: Cloud) -> None:
    group, of = made(cloud, "10.1.0.0/16"), web(cloud)
    status, answer = rule(cloud, of, remote_address_group_id=group)
    assert (status, answer["security_group_rule"]["remote_address_group_id"]) == (201, group)
    assert rule(cloud, of, remote_address_group_id=group)[0] == 409, "the same rule"
    assert rule(cloud, of, remote_address_group_id=group, remote_ip_prefix="10.0.0.0/8")[0] == 400
    assert rule(cloud, of, remote_address_group_id=UNKNOWN)[0] == 404
    listed = cloud.get(f"{ROOT}/security-group-rules?remote_address_group_id={group}")["security_group_rules"]
    assert [each["id"] for each in listed] == [answer["security_group_rule"]["id"]]
    status, refused = cloud.ask("DELETE", f"{GROUPS}/{group}")
    assert (status, refused["NeutronError"]["type"]) == (409, "AddressGroupInUse")
    assert cloud.ask("DELETE", f"{ROOT}/security-group-rules/{answer['security_group_rule']['id']}")[0] == 204
    assert cloud.ask("DELETE", f"{GROUPS}/{group}")[0] == 204


def test_hosts_get_the_ranges_of_the_rules_version(stocked: Cloud) -> None:
    group, of, blue = made(stocked, "10.1.0.0/16", "2001:db8::/64"), web(stocked), network(stocked)
    subnet(stocked, blue)
    for version in ("IPv4", "IPv6"):
        assert rule(stocked, of, remote_address_group_id=group, ethertype=version)[0] == 201
    server = stocked.make_server(networks=[{"port": port(stocked, blue, security_groups=[of])["id"]}])["id"]

    def remotes() -> set[tuple[int, tuple[str, ...] | None]]:
        with stocked.db.read() as session:
            (vif,) = vifs.of_instances(session, [server], rules=True)[server]
        return {(each.ip_version, each.remotes) for each in vif.rules or () if each.direction == "ingress"}

    assert remotes() == {(4, ("10.1.0.0/16",)), (6, ("2001:db8::/64",))}
    assert change(stocked, group, "add_addresses", "10.2.0.0/16")[0] == 200
    assert change(stocked, group, "remove_addresses", "2001:db8::/64")[0] == 200
    assert remotes() == {(4, ("10.1.0.0/16", "10.2.0.0/16")), (6, ())}, "a group without addresses lets nothing in"


def test_a_request_names_no_more_ranges_than_a_group_can_have(cloud: Cloud) -> None:
    many = [f"10.{number // 250}.{number % 250}.0/24" for number in range(201)]
    group = made(cloud)
    for action in ("add_addresses", "remove_addresses"):
        status, answer = change(cloud, group, action, *many)
        assert status == 400
        assert len(answer["NeutronError"]["message"]) < 500
