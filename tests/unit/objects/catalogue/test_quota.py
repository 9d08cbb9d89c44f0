"""How much of a quota is left, and how a refusal reads."""

import pytest

from minova.objects.catalogue.quota import COUNTED, RESOURCES, UNLIMITED, count_that_fits, overruns, refusal

LIMITS = {"instances": 10, "cores": 20, "ram": UNLIMITED, "key_pairs": 0}


@pytest.mark.parametrize(
    ("requested", "used", "over"),
    [
        ({"instances": 3}, {"instances": 7}, []),
        ({"instances": 4}, {"instances": 7}, [("instances", 4, 7, 10)]),
        ({"instances": 10}, {}, []),
        ({"instances": 11}, {}, [("instances", 11, 0, 10)]),
        ({"instances": 1, "cores": 99}, {"instances": 10}, [("cores", 99, 0, 20), ("instances", 1, 10, 10)]),
        ({"ram": 10**9}, {"ram": 5}, []),
        ({"instances": 0, "cores": -1}, {"instances": 11, "cores": 99}, []),
        ({"key_pairs": 1}, {}, [("key_pairs", 1, 0, 0)]),
    ],
)
def test_what_does_not_fit_is_named(
    requested: dict[str, int], used: dict[str, int], over: list[tuple[str, int, int, int]]
) -> None:
    found = overruns(requested, used, LIMITS)
    assert [(each.resource, each.requested, each.used, each.limit) for each in found] == over


def test_a_refusal_names_all_and_a_range_as_it_is() -> None:
    over = overruns({"instances": 4, "cores": 99}, {"instances": 7}, LIMITS)
    assert refusal(over) == (
        "Quota exceeded for cores, instances: Requested 99, 4, but already used 0, 7 of 20, 10 cores, instances"
    )
    assert "Requested 99, 1-4, but" in refusal(over, {"instances": "1-4"})


@pytest.mark.parametrize(
    ("each", "used", "most", "count"),
    [
        ({"instances": 1}, {"instances": 7}, 5, 3),
        ({"instances": 1}, {"instances": 7}, 2, 2),
        ({"instances": 1, "cores": 8}, {}, 9, 2),
        ({"cores": 7}, {"cores": 6}, 9, 2),
        ({"cores": 8}, {"cores": 99}, 9, 0),
        ({"ram": 512}, {}, 9, 9),
        ({"cores": 0, "key_pairs": 0}, {}, 9, 9),
        ({"instances": 1}, {"instances": 9}, 9, 1),
        ({"key_pairs": 1}, {}, 9, 0),
    ],
)
def test_how_many_fit(each: dict[str, int], used: dict[str, int], most: int, count: int) -> None:
    assert count_that_fits(each, used, LIMITS, most) == count


def test_which_service_shows_and_counts_a_resource() -> None:
    assert COUNTED == (
        "address_group",
        "cores",
        "image_count_total",
        "image_size_total",
        "instances",
        "networks",
        "ports",
        "ram",
        "security_group",
        "security_group_rule",
        "server_groups",
        "subnetpool",
        "subnets",
    )
    in_network = {name for name, resource in RESOURCES.items() if resource.in_network}
    assert in_network == {
        *("networks", "subnets", "ports", "security_group", "security_group_rule", "address_group", "subnetpool"),
        *("router", "floatingip", "rbac_policy"),
    }
    assert {name for name, resource in RESOURCES.items() if not resource.in_compute} == {
        "image_count_total",
        "image_size_total",
    }
    without_limit = {name for name, resource in RESOURCES.items() if resource.option is None}
    assert without_limit == {
        *("fixed_ips", "floating_ips", "security_groups", "security_group_rules"),
        *("router", "floatingip", "rbac_policy"),
    }
