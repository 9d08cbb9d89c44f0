"""Steps of a node's usage, each of which can be taken back."""

import msgspec

from minova.compute.accounting.inventories import ReservedResources
from minova.compute.accounting.node_usage import NodeUsage, with_orphan, with_reserved, without_instance
from minova.compute.accounting.usage import Usage
from minova.objects.hosts.compute_node import ComputeNode

NODE = ComputeNode(
    uuid="u",
    host="h",
    hypervisor_hostname="n",
    memory_mb=1000,
    local_gb=100,
    vcpus=10,
    free_ram_mb=1000,
    free_disk_gb=100,
)
EMPTY = NodeUsage(node=NODE)


def used(usage: NodeUsage) -> tuple[int, ...]:
    node = usage.node
    return node.memory_mb_used, node.local_gb_used, node.vcpus_used, node.free_ram_mb, node.free_disk_gb


def test_reserved_amounts_replace_those_before() -> None:
    first = with_reserved(EMPTY, ReservedResources(memory_mb=100, disk_gb=10, vcpus=1))
    assert used(first) == (100, 10, 1, 900, 90)
    second = with_reserved(first, ReservedResources(memory_mb=30, disk_gb=20, vcpus=3))
    assert used(second) == (30, 20, 3, 970, 80)
    assert with_reserved(second, ReservedResources()).node == EMPTY.node
    assert second.reserved == ReservedResources(memory_mb=30, disk_gb=20, vcpus=3)


def test_an_orphan_is_removed_as_an_instance_is() -> None:
    first, second = Usage(memory_mb=50, disk_gb=5, vcpus=2), Usage(memory_mb=7, disk_gb=0, vcpus=0)
    both = with_orphan(with_orphan(EMPTY, "one", first), "two", second)
    assert used(both) == (57, 5, 2, 943, 95)
    left = without_instance(both, "one")
    assert (used(left), left.orphans) == ((7, 0, 0, 993, 100), {"two": second})
    assert msgspec.structs.replace(without_instance(left, "two"), orphans={}) == EMPTY
    assert without_instance(left, "unknown") == left
