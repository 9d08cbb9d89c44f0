"""`sort_key` and `sort_dir` of all listings, with pages."""

from typing import Any

import pytest

from tests.functional.api.conftest import Cloud
from tests.functional.api.network.test_networks import listed, make, network, port, subnet

ROOT = "/network/v2.0"


def pages(cloud: Cloud, kind: str, query: str) -> list[list[Any]]:
    """All pages, by their links."""
    collection = f"{kind}s"
    path = f"{ROOT}/{collection.replace('_', '-')}?{query}"
    ids_by_page = []
    while True:
        answer = cloud.get(path)
        ids_by_page.append([each["id"] for each in answer[collection]])
        links = {link["rel"]: link["href"] for link in answer.get(f"{collection}_links", ())}
        if "next" not in links:
            return ids_by_page
        path = links["next"].removeprefix("http://localhost")
        if len(ids_by_page) > 20:
            raise AssertionError("the links go on and on")


def stock(cloud: Cloud, kind: str) -> None:
    if kind in ("security_group_rule", "security_group"):
        collection = f"{ROOT}/security-groups"
        for name in ("b", "a", "b"):
            cloud.ask("POST", collection, {"security_group": {"name": name}})
        return
    if kind == "address_group":
        for name in ("b", "", "a", "b"):
            cloud.ask("POST", f"{ROOT}/address-groups", {"address_group": {"name": name}})
        return
    if kind == "subnetpool":
        for name in ("b", "a", "b"):
            make(cloud, kind, name=name, prefixes=["10.0.0.0/8"])
        return
    for number, name in enumerate(("b", "a", "b")):
        on = network(cloud, name=name)
        if kind == "subnet":
            gateway = None if name == "a" else f"10.{number}.0.1"
            subnet(cloud, on, f"10.{number}.0.0/24", name=name, gateway_ip=gateway)
        if kind == "port":
            port(cloud, on, name=name)


def shown(resource: dict[str, Any], key: str) -> Any:
    value = resource[key]
    if isinstance(value, bool):
        return int(value)
    return (-1 if key in ("port_range_min", "port_range_max", "default_quota") else "") if value is None else value


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("network", ["name", "admin_state_up", "status", "mtu", "project_id", "created_at"]),
        ("subnet", ["name", "network_id", "gateway_ip", "cidr", "subnetpool_id", "enable_dhcp"]),
        ("port", ["name", "network_id", "mac_address", "status", "device_owner"]),
        ("subnetpool", ["name", "default_quota", "shared"]),
        ("security_group", ["name", "description"]),
        ("security_group_rule", ["direction", "protocol", "port_range_min", "remote_group_id", "security_group_id"]),
        ("address_group", ["name", "tenant_id"]),
    ],
)
def test_listing_is_sorted_and_its_pages_are_too(cloud: Cloud, kind: str, keys: list[str]) -> None:
    stock(cloud, kind)
    cloud.get(f"{ROOT}/security-groups")  # the first listing makes the default group
    collection = f"{kind}s"
    every = cloud.get(f"{ROOT}/{collection.replace('_', '-')}")[collection]
    assert len(every) > 2
    for key in (*keys, "id"):
        for direction in ("asc", "desc"):
            ordered = sorted(every, key=lambda one: shown(one, key), reverse=direction == "desc")
            expected = [shown(row, key) for row in ordered]
            answer = cloud.get(f"{ROOT}/{collection.replace('_', '-')}?sort_key={key}&sort_dir={direction}")[collection]
            assert [shown(row, key) for row in answer] == expected, (key, direction)
            of_pages = pages(cloud, kind, f"sort_key={key}&sort_dir={direction}&limit=2")
            assert [each for page in of_pages for each in page] == [row["id"] for row in answer], (key, direction)


def test_two_keys_and_pages_backwards(cloud: Cloud) -> None:
    for name, mtu in (("b", 1400), ("a", 1400), ("b", 1300), ("a", 1300), ("c", 1400)):
        network(cloud, name=name, mtu=mtu)
    query = "sort_key=name&sort_dir=desc&sort_key=mtu&sort_dir=asc"
    names_and_mtus = [(network["name"], network["mtu"]) for network in listed(cloud, "network", query)]
    assert names_and_mtus == [("c", 1400), ("b", 1300), ("b", 1400), ("a", 1300), ("a", 1400)]
    ids = [network["id"] for network in listed(cloud, "network", query)]
    backwards = cloud.get(f"{ROOT}/networks?{query}&limit=2&page_reverse=True&marker={ids[4]}")
    assert [network["id"] for network in backwards["networks"]] == ids[2:4]
    assert {link["rel"] for link in backwards["networks_links"]} == {"next", "previous"}


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("sort_key=name", "The number of sort_keys and sort_dirs must be same"),
        ("sort_dir=asc", "The number of sort_keys and sort_dirs must be same"),
        ("sort_key=elephant&sort_dir=asc", "['elephant'] is invalid attribute for sort_keys"),
        ("sort_key=__class__&sort_dir=asc", "['__class__'] is invalid attribute for sort_keys"),
        ("sort_key=id&sort_dir=up", "['up'] is invalid value for sort_dirs, valid value is 'asc' and 'desc'"),
    ],
)
def test_wrong_sorting_is_refused_in_neutrons_words(cloud: Cloud, query: str, text: str) -> None:
    for collection in ("networks", "subnets", "ports", "security-groups", "security-group-rules", "subnetpools"):
        status, answer = cloud.ask("GET", f"{ROOT}/{collection}?{query}")
        assert (status, answer["NeutronError"]["message"]) == (400, text), collection


def test_bug_many_sort_keys_keep_a_thread_and_the_database_busy(cloud: Cloud) -> None:
    """48 keys on 500 ports took 46 s."""
    many = "&".join(["sort_key=status&sort_dir=asc"] * 48)
    status, answer = cloud.ask("GET", f"{ROOT}/ports?{many}")
    assert (status, answer["NeutronError"]["message"]) == (400, "There are 48 sort_keys, and at most 14 are allowed.")
    # The first mention of a column counts.
    for name in ("b", "a"):
        network(cloud, name=name)
    again = "sort_key=name&sort_dir=asc&sort_key=name&sort_dir=desc&sort_key=tenant_id&sort_dir=asc&sort_key=project_id&sort_dir=desc"
    assert [network["name"] for network in listed(cloud, "network", again)] == ["a", "b"]
