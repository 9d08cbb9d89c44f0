"""`minova quota`, against minova-api itself."""

import pytest

from tests.functional.api.conftest import Cloud
from tests.functional.cli.conftest import Cli, json_output, succeed

JSON = ("-f", "json")


def test_limits_of_a_project(cloud: Cloud, minova: Cli) -> None:
    succeed(minova("quota", "set", "demo", "--instances", "3", "--image-size-total", "100"))
    sizes = ("--properties", "5", "--injected-file-size", "6", "--injected-path-size", "7", "--no-force")
    succeed(minova("quota", "set", "demo", *sizes))
    shown = json_output(minova("quota", "show", "demo", *JSON))
    names = ("metadata_items", "injected_file_content_bytes", "injected_file_path_bytes")
    assert [shown[name] for name in names] == [5, 6, 7]
    assert (shown["id"], shown["instances"], shown["cores"], shown["image_size_total"]) == ("demo", 3, -1, 100)
    succeed(minova("quota", "delete", "demo"))
    assert json_output(minova("quota", "show", "demo", *JSON))["instances"] == -1


def test_default_limits(cloud: Cloud, minova: Cli) -> None:
    succeed(minova("quota", "set", "--default", "--cores", "7"))
    assert json_output(minova("quota", "show", "--default", *JSON))["cores"] == 7
    assert json_output(minova("quota", "show", "demo", *JSON))["cores"] == 7


def test_usages_of_a_project_and_of_the_own_one(cloud: Cloud, minova: Cli) -> None:
    cloud.with_catalogue().make_server()
    for words in ((), ("admin",)):
        rows = {row["Resource"]: row for row in json_output(minova("quota", "list", *words, *JSON))}
        assert rows["instances"] == {"Resource": "instances", "In Use": 1, "Limit": -1}
        assert rows["ram"]["In Use"] == 128
    assert json_output(minova("quota", "list", "other", *JSON))[0]["In Use"] == 0
    shown = json_output(minova("quota", "show", "--usage", *JSON))
    assert shown["instances"] == {"limit": -1, "in_use": 1, "reserved": 0}
    assert shown["networks"] == {"limit": -1, "used": 0, "reserved": 0}
    assert "in_use='1', limit='-1', reserved='0'" in succeed(minova("quota", "show", "--usage", "--compute")).out


def test_limits_of_networks(cloud: Cloud, minova: Cli) -> None:
    words = ("--networks", "2", "--subnets", "3", "--ports", "4", "--secgroups", "5", "--secgroup-rules", "6")
    succeed(minova("quota", "set", "demo", *words, "--cores", "7"))
    networks = {"networks": 2, "subnets": 3, "ports": 4, "secgroups": 5, "secgroup_rules": 6}
    networks |= {"subnetpools": -1, "address_groups": -1}
    assert json_output(minova("quota", "show", "demo", "--network", *JSON)) == networks
    other = json_output(minova("quota", "show", "other", *JSON))
    whole = json_output(minova("quota", "show", "demo", *JSON))
    assert {**whole, **networks, "cores": 7} == whole
    assert networks.keys().isdisjoint(json_output(minova("quota", "show", "demo", "--compute", *JSON)))
    assert json_output(minova("quota", "show", "--default", "--network", *JSON))["ports"] != 4
    succeed(minova("quota", "delete", "demo", "--all"))
    assert json_output(minova("quota", "show", "demo", *JSON)) == {**other, "id": "demo"}
    succeed(minova("network", "create", "blue"))
    refused = minova("quota", "set", "admin", "--networks", "0")
    assert (refused.code, "networks" in refused.err) == (1, True)
    succeed(minova("quota", "set", "admin", "--networks", "0", "--force"))
    assert json_output(minova("quota", "show", "--all", *JSON))["networks"] == 0


def test_limit_below_the_usage_takes_force(cloud: Cloud, minova: Cli) -> None:
    cloud.with_catalogue().make_server()
    refused = minova("quota", "set", "admin", "--instances", "0")
    assert (refused.code, "must be greater than or equal to already used" in refused.err) == (1, True)
    succeed(minova("quota", "set", "admin", "--instances", "0", "--force"))


def test_as_many_servers_as_the_quota_allows_with_the_reason(cloud: Cloud, minova: Cli) -> None:
    cloud.with_catalogue()
    succeed(minova("quota", "set", "admin", "--instances", "2"))
    created = succeed(minova("server", "create", "web", "--flavor", "tiny", "--image", "guest", "--max", "5", *JSON))
    assert len(json_output(created)) == 2
    assert created.err == "minova: 2 of at most 5 servers: the quota allows no more ('minova quota list').\n"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("set", "demo"), "No limit is given"),
        (("set", "--cores", "1"), "either a PROJECT or --default"),
        (("set", "demo", "--default", "--cores", "1"), "either a PROJECT or --default"),
        (("set", "demo", "--cores", "-2"), "below -1"),
        (("set", "demo", "--cores", "many"), "not a whole number"),
        (("show", "demo", "--default"), "either a PROJECT or --default"),
        (("show", "--default", "--usage"), "--usage is for a project"),
        (("show", "--compute", "--network"), "not allowed with argument"),
        (("set", "--default", "--ports", "5"), "--default is not for limits of networks"),
    ],
)
def test_wrong_usage(cloud: Cloud, minova: Cli, words: tuple[str, ...], reason: str) -> None:
    result = minova("quota", *words)
    assert (result.code, reason in result.err) == (2, True)


def test_limits_of_the_own_project_with_what_it_uses(cloud: Cloud, minova: Cli) -> None:
    cloud.with_catalogue().make_server()
    succeed(minova("quota", "set", "admin", "--instances", "3"))
    shown = {row["Name"]: row["Value"] for row in json_output(minova("limits", "show", "--absolute", *JSON))}
    assert (shown["maxTotalInstances"], shown["totalInstancesUsed"], shown["totalRAMUsed"]) == (3, 1, 128)
    other = json_output(minova("limits", "show", "--project", "other", "--reserved", *JSON))
    assert {row["Name"]: row["Value"] for row in other}["totalInstancesUsed"] == 0
    assert json_output(minova("limits", "show", "--rate", *JSON)) == []
