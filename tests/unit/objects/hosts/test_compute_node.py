"""Figures of a node that a row can hold."""

from typing import Any

import msgspec
import pytest

from minova.objects.hosts.compute_node import (
    MAX_CAPACITY,
    AvailableResources,
    ComputeNode,
    Inventory,
    clamped,
    with_clamped_figures,
)

FIGURES = {
    "vcpus",
    "memory_mb",
    "local_gb",
    "vcpus_used",
    "memory_mb_used",
    "local_gb_used",
    "free_ram_mb",
    "free_disk_gb",
    "disk_available_least",
    "current_workload",
    "running_vms",
    "hypervisor_version",
}


def node(**more: Any) -> ComputeNode:
    return ComputeNode(uuid="u", host="a", hypervisor_hostname="a", **more)


@pytest.mark.parametrize(
    ("number", "held"),
    [
        (0, 0),
        (MAX_CAPACITY, MAX_CAPACITY),
        (MAX_CAPACITY + 1, MAX_CAPACITY),
        (-MAX_CAPACITY, -MAX_CAPACITY),
        (-MAX_CAPACITY - 1, -MAX_CAPACITY),
    ],
)
def test_a_number_becomes_the_nearest_that_a_row_can_hold(number: int, held: int) -> None:
    assert clamped(number) == held


def test_every_figure_of_a_node_is_held_by_its_row() -> None:
    too_large = node(**dict.fromkeys(FIGURES, MAX_CAPACITY + 1), generation=5)
    held = with_clamped_figures(too_large)
    assert {getattr(held, name) for name in FIGURES} == {MAX_CAPACITY}
    assert held.generation == 5
    plain = node(vcpus=3, disk_available_least=None)
    assert with_clamped_figures(plain) is plain


@pytest.mark.parametrize(
    ("total", "reserved", "ratio", "capacity"),
    [(16, 0, 4.0, 64), (16, 2, 1.5, 21), (10, 3, 0.5, 3), (MAX_CAPACITY, 0, 2.0, MAX_CAPACITY), (4, 4, 9.0, 0)],
)
def test_capacity_is_what_is_not_reserved_times_the_ratio(
    total: int, reserved: int, ratio: float, capacity: int
) -> None:
    inventory = Inventory(resource_class="VCPU", total=total, reserved=reserved, max_unit=total, allocation_ratio=ratio)
    assert inventory.capacity == capacity


def test_what_a_node_does_not_report_is_nothing() -> None:
    """A sender of an earlier release has no such fields."""
    least = node()
    assert {getattr(least, name) or 0 for name in FIGURES} == {0}
    assert (least.id, least.generation, least.writer_epoch, least.write_number, least.acknowledged) == (0, 0, 0, 0, 0)
    assert (least.cpu_allocation_ratio, least.ram_allocation_ratio, least.disk_allocation_ratio) == (4.0, 1.0, 1.0)
    inventory = Inventory(resource_class="VCPU", total=4, max_unit=4)
    assert (inventory.reserved, inventory.min_unit, inventory.step_size, inventory.allocation_ratio) == (0, 1, 1, 1.0)
    assert not inventory.keeps_ratio
    resources = AvailableResources(
        node="n",
        vcpus=1,
        memory_mb=1,
        memory_mb_used=0,
        local_gb=1,
        local_gb_used=0,
        hypervisor_type="QEMU",
        hypervisor_version=1,
        hypervisor_hostname="n",
    )
    assert (resources.pcpus, resources.vgpus, resources.memory_encryption_contexts) == (0, 0, 0)


INVENTORY = {"resource_class": "VCPU", "total": 1, "max_unit": 1}
NODE = {"uuid": "u", "host": "a", "hypervisor_hostname": "a"}


@pytest.mark.parametrize(
    ("of", "plain", "field", "good", "bad"),
    [
        (Inventory, INVENTORY, "min_unit", 1, 0),
        (Inventory, INVENTORY, "step_size", MAX_CAPACITY, MAX_CAPACITY + 1),
        (Inventory, INVENTORY, "resource_class", "MEM_ENCRYPTION_CONTEXT", "CUSTOM_A"),
        (Inventory, INVENTORY, "children", [["a", 1]] * 1024, [["a", 1]] * 1025),
        (ComputeNode, NODE, "supported_instances", [["a", "b", "c"]] * 1024, [["a", "b", "c"]] * 1025),
        (ComputeNode, NODE, "stats", {f"{n}": "" for n in range(40000)}, {f"{n}": "" for n in range(40001)}),
        (ComputeNode, NODE, "bridges", {f"{n}": "" for n in range(16384)}, {f"{n}": "" for n in range(16385)}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_report_has_its_bounds(of: Any, plain: dict[str, Any], field: str, good: Any, bad: Any) -> None:
    msgspec.convert({**plain, field: good}, of)
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.convert({**plain, field: bad}, of)
