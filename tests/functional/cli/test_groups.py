"""Aggregates, zones, server groups and flavors' properties, against minova-api itself."""

import uuid

import pytest

from minova.db import models
from tests.fakes.row_conductor import now
from tests.functional.api.compute.test_aggregates import add_host
from tests.functional.api.conftest import Cloud
from tests.functional.cli.conftest import Cli, json_output, succeed

CREATE = ("server", "create", "web", "--flavor", "tiny", "--image", "guest")
JSON = ("-f", "json")


def test_an_aggregate_by_name_and_id(cloud: Cloud, minova: Cli) -> None:
    for host in ("h1", "h2"):
        add_host(cloud, host)
    aggregate = json_output(minova("aggregate", "create", "fast", "--zone", "north", "--property", "disk=ssd", *JSON))
    assert (aggregate["availability_zone"], aggregate["hosts"], aggregate["properties"]) == (
        "north",
        [],
        {"disk": "ssd"},
    )
    succeed(minova("aggregate", "add", "host", "fast", "h1"))
    assert json_output(minova("aggregate", "add", "host", str(aggregate["id"]), "h2", *JSON))["hosts"] == ["h1", "h2"]
    assert json_output(minova("aggregate", "remove", "host", "fast", "h2", *JSON))["hosts"] == ["h1"]
    succeed(minova("aggregate", "set", "fast", "--name", "faster", "--property", "net=10G", "--property", "a=b"))
    succeed(minova("aggregate", "unset", "faster", "--property", "disk", "--property", "a"))
    (row,) = json_output(minova("aggregate", "list", *JSON))
    assert row == {
        "ID": aggregate["id"],
        "Name": "faster",
        "Availability Zone": "north",
        "Hosts": ["h1"],
        "Properties": {"net": "10G"},
    }
    assert "h1" in succeed(minova("aggregate", "show", "faster")).out
    result = minova("aggregate", "delete", "faster")
    assert (result.code, "not empty" in result.err) == (1, True)
    succeed(minova("aggregate", "remove", "host", "faster", "h1"))
    succeed(minova("aggregate", "delete", "faster"))
    assert json_output(minova("aggregate", "list", *JSON)) == []


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("create", ""), 1, "empty"),
        (("create", "fast"), 1, "already exists"),
        (("create", "b", "--zone", "a:b"), 1, "colon"),
        (("create", "b", "--property", "x"), 2, "KEY=VALUE"),
        (("show", "slow"), 1, "There is no aggregate with the name or ID 'slow'"),
        (("set", "fast"), 2, "Say what to set"),
        (("unset", "fast"), 2, "--property"),
        (("add", "host", "fast", "nobody"), 1, "Compute host nobody could not be found"),
        (("remove", "host", "fast", "nobody"), 1, "Cannot remove host nobody"),
        (("delete", "fast", "slow"), 1, "There is no aggregate"),
    ],
)
def test_aggregates_that_cannot_be(minova: Cli, words: tuple[str, ...], code: int, message: str) -> None:
    succeed(minova("aggregate", "create", "fast"))
    result = minova("aggregate", *words)
    assert (result.code, message in result.err) == (code, True), result.err
    assert len(json_output(minova("aggregate", "list", *JSON))) == 1


def test_zones(cloud: Cloud, minova: Cli) -> None:
    add_host(cloud, "h1")
    add_host(cloud, "h2", disabled=True)
    succeed(minova("aggregate", "create", "one", "--zone", "north"))
    succeed(minova("aggregate", "add", "host", "one", "h1"))
    assert json_output(minova("availability", "zone", "list", *JSON)) == [
        {"Zone Name": "north", "Zone Status": "available"},
        {"Zone Name": "nova", "Zone Status": "not available"},
    ]
    first, second = json_output(minova("availability", "zone", "list", "--long", *JSON))
    assert (first["Host Name"], first["Service Name"]) == ("h1", "minova-compute")
    assert first["Service Status"].startswith("enabled, up ")
    assert (second["Zone Name"], second["Host Name"], second["Service Status"]) == ("nova", "", "")
    assert "north" in succeed(minova("service", "list")).out


def test_a_server_group_and_its_servers(cloud: Cloud, stocked: Cli) -> None:
    words = ("--policy", "anti-affinity", "--max-server-per-host", "2", *JSON)
    server_group = json_output(stocked("server", "group", "create", "web", *words))
    assert (server_group["policy"], server_group["rules"], server_group["members"]) == (
        "anti-affinity",
        {"max_server_per_host": 2},
        [],
    )
    members = []
    for group in (("--group", "web"), ("--group", server_group["id"]), ("--hint", "group=web")):
        members.append(json_output(stocked(*CREATE, *group, "--hint", "a=b", *JSON))["id"])
        assert cloud.conductor.requests[-1].scheduler_hints == {"a": "b", "group": server_group["id"]}
    assert json_output(stocked("server", "group", "list", "--all-projects", "--long", *JSON)) == [
        {
            "ID": server_group["id"],
            "Name": "web",
            "Policy": "anti-affinity",
            "Rules": {"max_server_per_host": 2},
            "Members": members,
            "Project ID": "admin",
            "User ID": "admin",
        }
    ]
    assert json_output(stocked("server", "group", "show", server_group["id"], *JSON)) == {
        **server_group,
        "members": members,
    }
    succeed(stocked("server", "group", "create", "web"))
    assert "2 server groups have the name 'web'" in stocked("server", "group", "delete", "web").err
    succeed(stocked("server", "group", "delete", server_group["id"]))
    succeed(stocked("server", "group", "delete", "web"))
    assert json_output(stocked("server", "group", "list", *JSON)) == []


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("group", "create", "g", "--policy", "legacy"), 2, "invalid choice"),
        (("group", "create", "g", "--max-server-per-host", "2"), 1, "Only anti-affinity policy supports rules"),
        (("group", "create", "g", "--max-server-per-host", "0"), 2, "below 1"),
        (("group", "create", ""), 1, "empty"),
        (("group", "show", "g"), 1, "There is no server group with the name or ID 'g'"),
        (("group", "delete", str(uuid.uuid4())), 1, "There is no server group"),
        ((*CREATE[1:], "--group", "g"), 1, "There is no server group"),
        ((*CREATE[1:], "--group", "g", "--hint", "group=g"), 2, "say the same thing"),
        ((*CREATE[1:], "--hint", "same_host=web"), 1, "There is no server with the name or ID 'web'"),
        ((*CREATE[1:], "--availability-zone", "mars"), 1, "mars"),
    ],
)
def test_groups_and_hints_that_cannot_be(
    cloud: Cloud, stocked: Cli, words: tuple[str, ...], code: int, message: str
) -> None:
    result = stocked("server", *words)
    assert (result.code, message in result.err) == (code, True), result.err
    assert cloud.conductor.requests == []


def test_servers_in_hints_are_named(cloud: Cloud, stocked: Cli) -> None:
    ids = [json_output(stocked(*CREATE[:2], name, *CREATE[3:], *JSON))["id"] for name in "ab"]
    hints = ("--hint", "different_host=a", "--hint", f"different_host={ids[1]}", "--hint", "same_host=b")
    succeed(stocked(*CREATE, *hints))
    assert cloud.conductor.requests[-1].scheduler_hints == {"different_host": ids, "same_host": [ids[1]]}


def test_more_groups_than_a_page_has(cloud: Cloud, minova: Cli) -> None:
    same = {"project_id": "admin", "user_id": "admin", "policy": "affinity", "rules": {}, "created_at": now()}
    cloud.conductor.add(*(models.InstanceGroup(uuid=str(uuid.uuid4()), name=f"g{n}", **same) for n in range(1001)))
    assert len(json_output(minova("server", "group", "list", *JSON))) == 1001


def test_description_of_a_flavor(minova: Cli) -> None:
    flavor = json_output(minova("flavor", "create", "said", "--description", "for the shop", *JSON))
    assert flavor["description"] == "for the shop"
    succeed(minova("flavor", "set", "said", "--description", "for all"))
    assert json_output(minova("flavor", "show", "said", *JSON))["description"] == "for all"
    assert minova("flavor", "set", "said").code == 2


def test_properties_of_a_flavor(minova: Cli) -> None:
    succeed(minova("flavor", "create", "tiny", "--property", "a=1"))
    succeed(minova("flavor", "set", "tiny", "--property", "hw:cpu_policy=dedicated", "--property", "a=2"))
    assert json_output(minova("flavor", "show", "tiny", *JSON))["properties"] == {
        "a": "2",
        "hw:cpu_policy": "dedicated",
    }
    result = minova("flavor", "unset", "tiny", "--property", "a", "--property", "b")
    assert (result.code, "has no property b; nothing was unset" in result.err) == (1, True)
    succeed(minova("flavor", "unset", "tiny", "--property", "a", "--property", "a"))
    assert json_output(minova("flavor", "show", "tiny", *JSON))["properties"] == {"hw:cpu_policy": "dedicated"}
    assert minova("flavor", "set", "tiny", "--property", "a/b=c").code == 1
