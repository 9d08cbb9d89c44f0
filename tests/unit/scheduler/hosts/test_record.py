"""What is free on a host: the larger of what its node reports and what is allocated on it."""

from typing import Any

import pytest

from minova.objects.hosts.bounds import MAX_COUNT
from minova.scheduler.hosts.record import (
    AggregateFacts,
    HostRecord,
    InventoryFacts,
    Metric,
    counted,
    cpu_inventory,
    effective_used,
    free_disk_mb,
    host_record,
    merge_inventories,
    ratio_of,
)

NODE = {
    "id": 7,
    "uuid": "u",
    "generation": 3,
    "host": "a",
    "hypervisor_hostname": "a.example.org",
    "memory_mb": 32768,
    "memory_mb_used": 512,
    "vcpus": 16,
    "vcpus_used": 2,
    "local_gb": 500,
    "local_gb_used": 20,
    "free_disk_gb": 480,
    "disk_available_least": None,
    "ram_allocation_ratio": 1.0,
    "cpu_allocation_ratio": 4.0,
    "disk_allocation_ratio": 1.0,
    "host_ip": "10.0.0.1",
}


def inventory(used: int = 0, **more: Any) -> InventoryFacts:
    return InventoryFacts(**{"capacity": 100, "used": used, "max_unit": 100, **more})


def record_of(node: dict[str, Any] | None = None, pending: int = 0, **facts: Any) -> HostRecord:
    plain: dict[str, Any] = {"service_id": 1, "service": None, "stats": {}, "instances": ()}
    inventories = facts.pop("inventories", {})
    return host_record({**NODE, **(node or {})}, inventories, pending, **{**plain, **facts})


@pytest.mark.parametrize(
    ("sentence", "reported", "of_inventory", "used"),
    [
        ("no inventory: what the node reports", 5, None, 5),
        ("the node knows more: its orphans", 9, inventory(3), 9),
        ("the inventory knows more: the newest claims", 3, inventory(9), 9),
        ("with what is reserved", 3, inventory(4, reserved=5), 9),
        ("claims that the node has not processed are beside what it reports", 5, inventory(3, pending=2), 7),
    ],
)
def test_used_is_the_larger_of_report_and_allocations(
    sentence: str, reported: int, of_inventory: InventoryFacts | None, used: int
) -> None:
    assert effective_used(reported, of_inventory) == used, sentence


@pytest.mark.parametrize(
    ("free_gb", "least", "unreported", "free_mb"),
    [(10, None, 0, 10240), (10, 4, 0, 4096), (4, 10, 0, 4096), (10, 4, 3, 1024), (1, None, 3, -2048), (5, 0, 0, 0)],
)
def test_free_disk_is_the_lower_number_without_what_is_claimed_and_not_reported(
    free_gb: int, least: int | None, unreported: int, free_mb: int
) -> None:
    assert free_disk_mb(free_gb, least, unreported) == free_mb


def test_shared_and_dedicated_cpus_count_together() -> None:
    shared, dedicated = inventory(3, reserved=1, pending=1), inventory(4, capacity=7, reserved=2, pending=3)
    assert cpu_inventory({}) is None
    assert cpu_inventory({"VCPU": shared, "DISK_GB": inventory(50)}) is shared
    assert cpu_inventory({"PCPU": dedicated}) is dedicated
    both = cpu_inventory({"PCPU": dedicated, "VCPU": shared})
    assert both is not None
    assert (both.used, both.reserved, both.pending, both.capacity) == (7, 3, 4, shared.capacity)


def test_two_inventories_of_a_class_are_one_that_gives_at_most_what_the_freer_has() -> None:
    first = inventory(90, capacity=100, reserved=1, pending=2, max_unit=50)
    other = inventory(30, capacity=20, reserved=3, pending=4, max_unit=20)
    merged = merge_inventories(first, other)
    assert (merged.capacity, merged.reserved, merged.pending) == (120, 4, 6)
    # Usage beyond the capacity of the second takes nothing from the first.
    assert merged.used == 90 + 20
    assert merged.max_unit == 10
    assert merge_inventories(other, first).max_unit == 10
    assert merge_inventories(inventory(max_unit=5), other).max_unit == 5


def test_the_ratio_of_an_inventory_comes_before_that_of_the_node() -> None:
    assert ratio_of(None, 4.0) == 4.0
    assert ratio_of(inventory(), 4.0) == 4.0
    assert ratio_of(inventory(allocation_ratio=2.0), 4.0) == 2.0


@pytest.mark.parametrize(
    ("stats", "number"), [({}, 0), ({"io_workload": None}, 0), ({"io_workload": "3"}, 3), ({"io_workload": -1}, -1)]
)
def test_a_counter_of_the_stats_is_a_number(stats: dict[str, Any], number: int) -> None:
    assert counted(stats, "io_workload") == number


def test_a_counter_that_is_no_number_or_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="io_workload is 'many', which is no number"):
        counted({"io_workload": "many"}, "io_workload")
    for number in (MAX_COUNT, -MAX_COUNT):
        assert counted({"io_workload": number}, "io_workload") == number
    for number in (MAX_COUNT + 1, -MAX_COUNT - 1):
        with pytest.raises(ValueError, match="io_workload is too large"):
            counted({"io_workload": number}, "io_workload")


def test_a_record_is_the_row_of_its_node_with_its_claims() -> None:
    record = record_of(
        inventories={
            "VCPU": inventory(3, pending=2, allocation_ratio=8.0),
            "PCPU": inventory(4),
            "MEMORY_MB": inventory(1024, allocation_ratio=1.5),
            "DISK_GB": inventory(30, allocation_ratio=2.0),
        },
        pending=2,
        stats={"io_workload": "1", "failed_builds": "5"},
        instances=("x", "y", "z"),
    )
    assert (record.id, record.host, record.node, record.host_ip) == (7, "a", "a.example.org", "10.0.0.1")
    assert (record.memory_mb_used, record.vcpus_used, record.local_gb_used) == (1024, 7, 30)
    # Ten of the claimed GB are not in what the node says is free.
    assert record.free_disk_mb == (480 - 10) * 1024
    assert (record.num_instances, record.num_io_ops, record.failed_builds) == (3, 1 + 2, 5)
    assert (record.ram_allocation_ratio, record.cpu_allocation_ratio, record.disk_allocation_ratio) == (1.5, 8.0, 2.0)


def test_a_record_without_inventories_is_the_row_of_its_node() -> None:
    record = record_of({"disk_available_least": 100})
    assert (record.memory_mb_used, record.vcpus_used, record.local_gb_used) == (512, 2, 20)
    assert record.free_disk_mb == 100 * 1024
    assert (record.num_io_ops, record.failed_builds) == (0, 0)
    assert (record.ram_allocation_ratio, record.cpu_allocation_ratio, record.disk_allocation_ratio) == (1.0, 4.0, 1.0)


@pytest.mark.parametrize(
    ("name", "value", "whole"),
    [
        ("cpu.percent", 0.57, 56),
        ("cpu.percent", None, 0),
        ("cpu.frequency", 2400.9, 2400),
        ("cpu.user.percent", 1, 100),
    ],
)
def test_a_metric_is_a_whole_number_and_a_share_a_percentage(name: str, value: float | None, whole: int) -> None:
    assert Metric(name=name, value=value).whole == whole


def test_values_of_an_aggregate_are_split_at_commas() -> None:
    facts = AggregateFacts(1, "a", (("hosts", "no"), ("zone", "x, y")))
    assert facts.values("zone") == {"x", "y"}
    assert facts.values("missing") == set()
