"""What a node keeps for itself must be there."""

import msgspec
import pytest

from minova.compute.accounting.inventories import ConfiguredRatios, ReservedResources, inventories_of, require_capacity
from minova.errors import InvalidConfiguration
from minova.objects.hosts.compute_node import ComputeNode
from tests.fakes.hypervisor import Hypervisor

VIEW = Hypervisor("n1", vcpus=8, memory_mb=4096, local_gb=10).host_view("n1")


@pytest.mark.parametrize(
    ("reserved", "words"),
    [
        (ReservedResources(memory_mb=4097), "reserved_host_memory_mb = 4097: node n1 has 4096"),
        (ReservedResources(disk_gb=11), "reserved_host_disk_mb = 11264: node n1 has 10240"),
        (ReservedResources(vcpus=9), "reserved_host_cpus = 9: node n1 has 8"),
    ],
)
def test_more_than_there_is_cannot_be_reserved(reserved: ReservedResources, words: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        require_capacity(VIEW, reserved)
    assert str(caught.value) == f"[DEFAULT] {words}"


@pytest.mark.parametrize(("contexts", "inventory"), [(0, None), (1, 1), (15, 15)])
def test_guests_with_encrypted_memory(contexts: int, inventory: int | None) -> None:
    view = msgspec.structs.replace(VIEW, memory_encryption_contexts=contexts)
    node = ComputeNode(uuid="u1", host="h1", hypervisor_hostname="n1")
    totals = {
        inventory.resource_class: inventory.total
        for inventory in inventories_of(view, node, ReservedResources(), ConfiguredRatios())
    }
    assert totals.get("MEM_ENCRYPTION_CONTEXT") == inventory


def test_all_of_it_can() -> None:
    require_capacity(VIEW, ReservedResources(memory_mb=4096, disk_gb=10, vcpus=8))


@pytest.mark.parametrize(
    ("ratios", "keeps"),
    [(ConfiguredRatios(), [True, True, True]), (ConfiguredRatios(cpu=2.0, ram=3.0, disk=1.5), [False] * 3)],
)
def test_each_class_has_its_amounts_ratio_and_reserve(ratios: ConfiguredRatios, keeps: list[bool]) -> None:
    view = msgspec.structs.replace(VIEW, pcpus=3, vgpus=2, memory_encryption_contexts=4)
    node = ComputeNode(
        uuid="u1",
        host="h1",
        hypervisor_hostname="n1",
        cpu_allocation_ratio=2.0,
        ram_allocation_ratio=3.0,
        disk_allocation_ratio=1.5,
    )
    inventories = inventories_of(view, node, ReservedResources(memory_mb=5, disk_gb=99, vcpus=1), ratios)
    assert [
        (
            inventory.resource_class,
            inventory.total,
            inventory.reserved,
            inventory.allocation_ratio,
            inventory.keeps_ratio,
        )
        for inventory in inventories
    ] == [
        ("VCPU", 8, 1, 2.0, keeps[0]),
        ("PCPU", 3, 0, 1.0, False),
        ("VGPU", 2, 0, 1.0, False),
        ("MEM_ENCRYPTION_CONTEXT", 4, 0, 1.0, False),
        ("MEMORY_MB", 4096, 5, 3.0, keeps[1]),
        ("DISK_GB", 10, 10, 1.5, keeps[2]),
    ]
    assert [(inventory.max_unit, inventory.children) for inventory in inventories] == [
        (inventory.total, ()) for inventory in inventories
    ]


def test_cards_offer_their_virtual_gpus_each_for_itself() -> None:
    view = msgspec.structs.replace(VIEW, vcpus=0, vgpus=99, gpus={"card1": 1, "card0": 3})
    node = ComputeNode(uuid="u1", host="h1", hypervisor_hostname="n1")
    by_class = {
        inventory.resource_class: inventory
        for inventory in inventories_of(view, node, ReservedResources(), ConfiguredRatios())
    }
    assert by_class.keys() == {"VGPU", "MEMORY_MB", "DISK_GB"}
    assert (by_class["VGPU"].total, by_class["VGPU"].children) == (4, (("card0", 3), ("card1", 1)))
