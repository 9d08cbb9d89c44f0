"""Multipliers: options, their signs, and what aggregates set in their place; and Nova's normalisation beside them."""

from typing import Any

import numpy as np
import pytest

from minova.scheduler.extensions import load_weighers
from minova.scheduler.weights import Weigher, parts, weigh
from tests.unit.scheduler.hosts import record, table_of
from tests.unit.scheduler.requests import aggregates, options, per_host, request

DEFAULTS = {
    "CrossCellWeigher": 1000000.0,
    "NumInstancesWeigher": 0.0,
    "MetricsWeigher": 1.0,
    "CPUWeigher": 1.0,
    "BuildFailureWeigher": -1000000.0,
    "ServerGroupSoftAffinityWeigher": 1.0,
    "ServerGroupSoftAntiAffinityWeigher": 1.0,
    "RAMWeigher": 1.0,
    "DiskWeigher": 1.0,
    "PCIWeigher": 1.0,
    "ImagePropertiesWeigher": 0.0,
    "IoOpsWeigher": -1.0,
    "HypervisorVersionWeigher": 1.0,
}
KEYS = {
    "CrossCellWeigher": "cross_cell_move_weight_multiplier",
    "NumInstancesWeigher": "num_instances_weight_multiplier",
    "MetricsWeigher": "metrics_weight_multiplier",
    "CPUWeigher": "cpu_weight_multiplier",
    "BuildFailureWeigher": "build_failure_weight_multiplier",
    "ServerGroupSoftAffinityWeigher": "soft_affinity_weight_multiplier",
    "ServerGroupSoftAntiAffinityWeigher": "soft_anti_affinity_weight_multiplier",
    "RAMWeigher": "ram_weight_multiplier",
    "DiskWeigher": "disk_weight_multiplier",
    "PCIWeigher": "pci_weight_multiplier",
    "ImagePropertiesWeigher": "image_props_weight_multiplier",
    "IoOpsWeigher": "io_ops_weight_multiplier",
    "HypervisorVersionWeigher": "hypervisor_version_weight_multiplier",
}
ROWS = np.arange(3)


def named(name: str, **overrides: Any) -> Weigher:
    (weigher,) = load_weighers(options(weight_classes=[name], **overrides))
    return weigher


@pytest.mark.parametrize(("name", "default"), DEFAULTS.items())
def test_defaults_are_those_of_nova(name: str, default: float) -> None:
    table = table_of(record(1), record(2), record(3))
    assert per_host(named(name).multipliers(table, ROWS), 3) == [default] * 3


@pytest.mark.parametrize(("name", "key"), KEYS.items())
def test_the_option_and_the_aggregate_of_its_name(name: str, key: str) -> None:
    sign = -1 if name == "BuildFailureWeigher" else 1
    option = "metrics__weight_multiplier" if name == "MetricsWeigher" else key
    table = table_of(
        record(1),
        record(2, aggregates=aggregates({key: " 4 "})),
        record(3, aggregates=aggregates({key: "-1.5"}, {"other": "9"})),
    )
    assert per_host(named(name, **{option: 2.5}).multipliers(table, ROWS), 3) == [sign * 2.5, sign * 4.0, sign * -1.5]


@pytest.mark.parametrize(
    ("sentence", "metadata", "multiplier"),
    [
        ("the least of several", ({"ram_weight_multiplier": "3"}, {"ram_weight_multiplier": "1e-1"}), 0.1),
        ("one bad value discards all", ({"ram_weight_multiplier": "3"}, {"ram_weight_multiplier": "bogus"}), 7.0),
        ("no list", ({"ram_weight_multiplier": "1,2"},), 7.0),
        ("nothing", ({"ram_weight_multiplier": ""},), 7.0),
        ("0", ({"ram_weight_multiplier": "0"},), 0.0),
    ],
)
def test_what_aggregates_may_say(sentence: str, metadata: tuple[dict[str, str], ...], multiplier: float) -> None:
    table = table_of(record(1, aggregates=aggregates(*metadata)), record(2))
    weigher = named("RAMWeigher", ram_weight_multiplier=7.0)
    assert per_host(weigher.multipliers(table, np.arange(2)), 2) == [multiplier, 7.0]


@pytest.mark.parametrize(
    ("name", "half"),
    [
        ("RAMWeigher", {"memory_mb_used": 16384}),
        ("CPUWeigher", {"vcpus_used": 32}),
        ("DiskWeigher", {"free_disk_mb": 256_000, "local_gb": 500}),
        ("IoOpsWeigher", {"num_io_ops": 4}),
    ],
)
def test_amounts_are_weighed_from_0_up(name: str, half: dict[str, Any]) -> None:
    whole = {"num_io_ops": 8, "free_disk_mb": 512_000, "local_gb": 500}
    table = table_of(record(1, **whole), record(2, **whole | half))
    assert per_host(parts(named(name), table, np.arange(2), request()).normal, 2) == [1.0, 0.5]


def test_a_multiplier_of_0_switches_a_weigher_off() -> None:
    table = table_of(record(1), record(2, memory_mb_used=32768))
    assert list(weigh(table, np.arange(2), request(), [named("RAMWeigher", ram_weight_multiplier=0.0)]).total) == [0, 0]


def test_a_weigher_without_an_option_has_the_multiplier_1() -> None:
    class Numbers(Weigher):
        pass

    assert per_host(Numbers(options()).multipliers(table_of(record(1)), np.arange(1)), 1) == [1.0]


def test_equal_hosts_are_told_apart_by_their_aggregates_where_weights_start_at_0() -> None:
    keys = {"ram_weight_multiplier": "5", "num_instances_weight_multiplier": "5"}
    others = [record(number, num_instances=2) for number in (1, 3)]
    table = table_of(*others, record(2, num_instances=2, aggregates=aggregates(keys)))
    assert list(weigh(table, ROWS, request(), [named("RAMWeigher")]).total) == [1.0, 5.0, 1.0]
    assert list(weigh(table, ROWS, request(), [named("NumInstancesWeigher")]).total) == [0.0, 0.0, 0.0]


def test_image_properties_weigh_nothing_while_their_option_is_0_whatever_aggregates_say() -> None:
    facts = {"instances": ("a",), "instance_images": ((("os_type", "linux"),),)}
    override = aggregates({"image_props_weight_multiplier": "5"})
    table = table_of(record(1, aggregates=override, **facts), record(2, aggregates=override), record(3))
    spec = request(properties={"os_type": "linux"})
    assert list(weigh(table, ROWS, spec, [named("ImagePropertiesWeigher")]).total) == [0.0, 0.0, 0.0]
    on = named("ImagePropertiesWeigher", image_props_weight_multiplier=1.0)
    assert list(weigh(table, ROWS, spec, [on]).total) == [5.0, 0.0, 0.0]


def test_a_weigher_that_is_named_twice_counts_twice() -> None:
    table = table_of(record(1), record(2, memory_mb_used=32768))
    twice = load_weighers(options(weight_classes=["RAMWeigher", "nova.scheduler.weights.ram.RAMWeigher"]))
    weighed = weigh(table, np.arange(2), request(), twice)
    assert list(weighed.total) == [2.0, 0.0]
    assert per_host(weighed.shares["RAMWeigher"], 2) == [2.0, 0.0]


@pytest.mark.parametrize(
    "name", ["pci_weight_multiplier", "soft_affinity_weight_multiplier", "soft_anti_affinity_weight_multiplier"]
)
def test_some_options_may_not_be_negative(name: str) -> None:
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        options(**{name: -1.0})
