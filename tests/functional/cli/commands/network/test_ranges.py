"""Address groups and subnet pools, against minova-api itself."""

from typing import Any

from tests.functional.cli.conftest import Cli, json_output, succeed

JSON = ("-f", "json")


def shown(minova: Cli, *words: str) -> Any:
    return json_output(minova(*words, *JSON))


def test_address_groups_from_their_creation_to_their_end(minova: Cli) -> None:
    offices = shown(
        minova, "address", "group", "create", "offices", "--address", "192.0.2.0/24", "--address", "2001:db8::1"
    )
    assert offices["addresses"] == ["192.0.2.0/24", "2001:db8::1/128"]
    succeed(minova("address", "group", "set", "offices", "--name", "sites", "--description", "all of them"))
    succeed(minova("address", "group", "set", "sites", "--address", "198.51.100.7"))
    succeed(minova("address", "group", "unset", "sites", "--address", "2001:db8::1"))
    sites = shown(minova, "address", "group", "show", "sites")
    assert (sites["description"], sorted(sites["addresses"])) == ("all of them", ["192.0.2.0/24", "198.51.100.7/32"])
    assert [row["ID"] for row in shown(minova, "address", "group", "list", "--name", "sites")] == [offices["id"]]
    assert shown(minova, "address", "group", "list", "--name", "offices") == []
    succeed(minova("security", "group", "create", "web"))
    rule = shown(minova, "security", "group", "rule", "create", "web", "--remote-address-group", "sites")
    assert rule["remote_address_group_id"] == offices["id"]
    used = minova("address", "group", "delete", "sites")
    assert (used.code, "in use" in used.err) == (1, True)
    succeed(minova("security", "group", "rule", "delete", rule["id"]))
    succeed(minova("address", "group", "delete", "sites"))
    assert shown(minova, "address", "group", "list") == []


def test_subnet_pools_from_their_creation_to_their_end(minova: Cli) -> None:
    words = (
        "--pool-prefix",
        "10.40.0.0/16",
        "--default-prefix-length",
        "24",
        "--min-prefix-length",
        "20",
        "--tag",
        "a",
    )
    campus = shown(minova, "subnet", "pool", "create", "campus", *words, "--default", "--share")
    assert (campus["default_prefixlen"], campus["min_prefixlen"], campus["is_default"]) == (24, 20, True)
    assert campus["tags"] == ["a"]
    succeed(minova("network", "create", "net"))
    first = shown(minova, "subnet", "create", "one", "--network", "net", "--subnet-pool", "campus")
    second = shown(
        minova, "subnet", "create", "two", "--network", "net", "--subnet-pool", "campus", "--prefix-length", "22"
    )
    third = shown(minova, "subnet", "create", "three", "--network", "net", "--use-default-subnet-pool")
    lengths = [subnet["cidr"].partition("/")[2] for subnet in (first, second, third)]
    assert lengths == ["24", "22", "24"]
    assert {subnet["subnetpool_id"] for subnet in (first, second, third)} == {campus["id"]}
    succeed(minova("subnet", "pool", "set", "campus", "--pool-prefix", "10.41.0.0/16", "--tag", "b", "--no-default"))
    shown_pool = shown(minova, "subnet", "pool", "show", "campus")
    # Ranges side by side become one, as in Neutron.
    assert (shown_pool["prefixes"], shown_pool["is_default"], sorted(shown_pool["tags"])) == (
        ["10.40.0.0/15"],
        False,
        ["a", "b"],
    )
    succeed(minova("subnet", "pool", "unset", "campus", "--tag", "a"))
    assert shown(minova, "subnet", "pool", "show", "campus")["tags"] == ["b"]
    succeed(minova("subnet", "pool", "set", "campus", "--no-tag"))
    assert shown(minova, "subnet", "pool", "show", "campus")["tags"] == []
    assert [row["Name"] for row in shown(minova, "subnet", "pool", "list", "--share", "--no-default")] == ["campus"]
    assert shown(minova, "subnet", "pool", "list", "--no-share") == []
    used = minova("subnet", "pool", "delete", "campus")
    assert used.code == 1
    succeed(minova("subnet", "delete", "one", "two", "three"))
    succeed(minova("subnet", "pool", "delete", "campus"))
    assert shown(minova, "subnet", "pool", "list", "--long") == []


def test_words_that_cannot_be_are_refused(minova: Cli) -> None:
    refused = minova("subnet", "create", "one", "--network", "net")
    assert (refused.code, "Give --subnet-range, --subnet-pool" in refused.err) == (2, True)
    for words in (("address", "group", "set", "x"), ("address", "group", "unset", "x")):
        assert minova(*words).code == 2
    assert "is not an address" in minova("address", "group", "create", "x", "--address", "nowhere").err


def test_quotas_of_subnet_pools_and_address_groups(minova: Cli) -> None:
    succeed(minova("quota", "set", "acme", "--subnetpools", "3", "--address-groups", "4"))
    limits = shown(minova, "quota", "show", "acme", "--network")
    assert (limits["subnetpools"], limits["address_groups"]) == (3, 4)
