"""Filters that know hosts by name, address or the instances on them."""

import pytest

from minova.objects.requests.request_spec import Retry
from minova.scheduler.filters import Filter
from minova.scheduler.filters.affinity import (
    DifferentHostFilter,
    SameHostFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
)
from minova.scheduler.filters.cidr import SimpleCIDRAffinityFilter
from minova.scheduler.filters.isolated_hosts import IsolatedHostsFilter
from minova.scheduler.filters.retry import RetryFilter
from tests.unit.scheduler.filters.cases import Case, check, each, error_of

# The host of a case is host2, node2.
ISOLATED = {"isolated_hosts": ["host2"], "isolated_images": ["golden"]}
OTHERS = {"isolated_hosts": ["host9"], "isolated_images": ["golden"]}
LAX = {"restrict_isolated_hosts_to_isolated_images": False}

NAMES = [
    Case(RetryFilter, "a first attempt", None),
    Case(
        RetryFilter,
        "tried on this node",
        "tried already, as 2 in all",
        asked={"retry": Retry(num_attempts=2, hosts=(("host2", "node2"), ("host1", "node1")))},
    ),
    Case(
        RetryFilter,
        "tried on another node of the host",
        None,
        asked={"retry": Retry(num_attempts=1, hosts=(("host2", "node7"),))},
    ),
    Case(IsolatedHostsFilter, "nothing is isolated", None),
    Case(IsolatedHostsFilter, "isolated image, isolated host", None, asked={"image_id": "golden"}, options=ISOLATED),
    Case(
        IsolatedHostsFilter,
        "isolated image, other host",
        "image golden needs an isolated host",
        asked={"image_id": "golden"},
        options=OTHERS,
    ),
    Case(
        IsolatedHostsFilter,
        "other image, isolated host",
        "isolated host, and the image is not isolated",
        options=ISOLATED,
    ),
    Case(IsolatedHostsFilter, "other image, other host", None, options=OTHERS),
    Case(IsolatedHostsFilter, "lax: other image, isolated host", None, options=ISOLATED | LAX),
    Case(
        IsolatedHostsFilter,
        "lax: isolated image, other host",
        "image golden needs an isolated host",
        asked={"image_id": "golden"},
        options=OTHERS | LAX,
    ),
    Case(
        IsolatedHostsFilter,
        "hosts without images: no server may use them",
        "isolated host, and the image is not isolated",
        options={"isolated_hosts": ["host2"]},
    ),
    Case(
        IsolatedHostsFilter,
        "images without hosts: they go nowhere",
        "image golden needs an isolated host",
        asked={"image_id": "golden"},
        options={"isolated_images": ["golden"]},
    ),
    Case(ServerGroupAffinityFilter, "no group", None),
    Case(ServerGroupAffinityFilter, "the first of its group", None, asked={"policy": "affinity"}),
    Case(ServerGroupAffinityFilter, "where the group is", None, asked={"policy": "affinity", "hosts": ("host2",)}),
    Case(
        ServerGroupAffinityFilter,
        "where the group is not",
        "the group is on host3, host9",
        asked={"policy": "affinity", "hosts": ("host9", "host3")},
    ),
    Case(
        ServerGroupAffinityFilter,
        "names of hosts respect case",
        "the group is on HOST2",
        asked={"policy": "affinity", "hosts": ("HOST2",)},
    ),
    Case(ServerGroupAffinityFilter, "another policy", None, asked={"policy": "soft-affinity", "hosts": ("host9",)}),
]
INSTANCES = [
    Case(SameHostFilter, "no hint", None),
    Case(SameHostFilter, "a hint of nothing", None, asked={"hints": {"same_host": []}}),
    Case(SameHostFilter, "it is here", None, {"instances": ("a", "b")}, {"hints": {"same_host": "b"}}),
    Case(SameHostFilter, "one of them is here", None, {"instances": ("a",)}, {"hints": {"same_host": ["a", "z"]}}),
    Case(
        SameHostFilter,
        "none of them is here",
        "instances of the hint same_host here: 0 < requested 1",
        {"instances": ("a",)},
        {"hints": {"same_host": ["y", "z"]}},
    ),
    Case(DifferentHostFilter, "no hint", None, {"instances": ("a",)}),
    Case(DifferentHostFilter, "it is elsewhere", None, {"instances": ("a",)}, {"hints": {"different_host": ["z"]}}),
    Case(
        DifferentHostFilter,
        "two of them are here",
        "instances of the hint different_host here: 2 > allowed 0",
        {"instances": ("a", "b", "c")},
        {"hints": {"different_host": ["a", "b", "z"]}},
    ),
    Case(ServerGroupAntiAffinityFilter, "no group", None, {"instances": ("a",)}),
    Case(
        ServerGroupAntiAffinityFilter,
        "no member here",
        None,
        {"instances": ("x",)},
        {"policy": "anti-affinity", "members": ("a", "b")},
    ),
    Case(
        ServerGroupAntiAffinityFilter,
        "a member here",
        "members of the group here: 1 >= limit 1",
        {"instances": ("x", "a")},
        {"policy": "anti-affinity", "members": ("a", "b")},
    ),
    Case(
        ServerGroupAntiAffinityFilter,
        "max_server_per_host allows another",
        None,
        {"instances": ("a",)},
        {"policy": "anti-affinity", "members": ("a", "b"), "most": 2},
    ),
    Case(
        ServerGroupAntiAffinityFilter,
        "max_server_per_host is reached",
        "members of the group here: 2 >= limit 2",
        {"instances": ("a", "b")},
        {"policy": "anti-affinity", "members": ("a", "b"), "most": 2},
    ),
    Case(
        ServerGroupAntiAffinityFilter,
        "a server that moves may stay where it is",
        None,
        {"instances": ("a", "b")},
        {"policy": "anti-affinity", "members": ("a", "b"), "instance_uuid": "a"},
    ),
    Case(
        ServerGroupAntiAffinityFilter,
        "another policy",
        None,
        {"instances": ("a",)},
        {"policy": "soft-anti-affinity", "members": ("a",)},
    ),
]
NEAR = {"build_near_host_ip": "10.0.1.200"}
ADDRESSES = [
    Case(SimpleCIDRAffinityFilter, "no hint", None),
    Case(SimpleCIDRAffinityFilter, "a width alone", None, asked={"hints": {"cidr": "/8"}}),
    Case(SimpleCIDRAffinityFilter, "in the same /24", None, {"host_ip": "10.0.1.7"}, {"hints": NEAR}),
    Case(
        SimpleCIDRAffinityFilter,
        "in another",
        "address 10.0.2.7, asked to be in 10.0.1.200/24",
        {"host_ip": "10.0.2.7"},
        {"hints": NEAR},
    ),
    Case(SimpleCIDRAffinityFilter, "a wider net", None, {"host_ip": "10.0.2.7"}, {"hints": NEAR | {"cidr": ["/16"]}}),
    Case(
        SimpleCIDRAffinityFilter,
        "version 6",
        None,
        {"host_ip": "fd00::7"},
        {"hints": {"build_near_host_ip": "fd00::1", "cidr": "/64"}},
    ),
]


@each([*NAMES, *INSTANCES, *ADDRESSES])
def test_hosts(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    ("hints", "host_ip", "kind", "text"),
    [
        ({"build_near_host_ip": "10.0.0.999"}, "10.0.0.1", "AddrFormatError", "'10.0.0.999', cidr '/24'"),
        ({**NEAR, "cidr": "24"}, "10.0.0.1", "AddrFormatError", "'10.0.1.200', cidr '24'"),
        ({**NEAR, "cidr": 24}, "10.0.0.1", "TypeError", "'10.0.1.200', cidr 24"),
        (NEAR, "nowhere", "AddrFormatError", "host address 'nowhere'"),
    ],
    ids=["no address", "a bare number is glued to the address", "a width that is no text", "a host without a real one"],
)
def test_an_address_that_is_none_is_named(hints: dict[str, object], host_ip: str, kind: str, text: str) -> None:
    error = error_of(Case(SimpleCIDRAffinityFilter, "", "", {"host_ip": host_ip}, {"hints": hints}))
    assert getattr(error, "nova_name", "") == kind
    assert text in str(error)


@pytest.mark.parametrize("cls", [SameHostFilter, DifferentHostFilter])
def test_a_hint_that_names_no_instances_is_an_error(cls: type[Filter]) -> None:
    error = error_of(Case(cls, "", "", asked={"hints": {"same_host": 5, "different_host": 5}}))
    assert getattr(error, "nova_name", "") == "TypeError"
    assert str(error).startswith(f"Scheduler hint {'same' if cls is SameHostFilter else 'different'}_host: 5")
