"""What a node keeps for itself must be there."""

import msgspec
import pytest

from minova.compute.accounting.inventories import Ratios, Reserved, inventories_of, require_capacity
from minova.errors import InvalidConfiguration
from minova.objects.hosts.compute_node import ComputeNode
from tests.fakes.hypervisor import Hypervisor

VIEW = Hypervisor("n1", vcpus=8, memory_mb=4096, local_gb=10).host_view("n1")


@pytest.mark.parametrize(
    ("reserved", "words"),
    [
        (Reserved(memory_mb=4097), "reserved_host_memory_mb = 4097: node n1 has 4096"),
        (Reserved(disk_gb=11), "reserved_host_disk_mb = 11264: node n1 has 10240"),
        (Reserved(vcpus=9), "reserved_host_cpus = 9: node n1 has 8"),
    ],
)
def test_more_than_there_is_cannot_be_reserved(reserved: Reserved, words: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        require_capacity(VIEW, reserved)
    assert str(caught.value) == f"[DEFAULT] {words}"


@pytest.mark.parametrize(("contexts", "inventory"), [(0, None), (15, 15)])
def test_guests_with_encrypted_memory(contexts: int, inventory: int | None) -> None:
    view = msgspec.structs.replace(VIEW, memory_encryption_contexts=contexts)
    node = ComputeNode(uuid="u1", host="h1", hypervisor_hostname="n1")
    found = {one.resource_class: one.total for one in inventories_of(view, node, Reserved(), Ratios())}
    assert found.get("MEM_ENCRYPTION_CONTEXT") == inventory


def test_all_of_it_can() -> None:
    require_capacity(VIEW, Reserved(memory_mb=4096, disk_gb=10, vcpus=8))
