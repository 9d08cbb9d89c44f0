"""Rows that cannot be true together: an audit reports them, and counts what is left."""

from typing import Any

import msgspec

from minova.compute.accounting.audit import AuditResult, audit_node
from minova.objects.catalogue.flavor import Overhead
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.hosts.pci import PciDevice
from minova.objects.servers.build import AuditInputs
from minova.objects.servers.migration import Migration, MigrationType
from minova.objects.servers.states import TaskState, VmState
from minova.objects.unexpected.guest_record import GuestRecord
from tests.unit.compute.accounting.test_audit import FLAVOR, SETTINGS, a_domain, a_view, an_instance
from tests.unit.hardware.guests import cell, guest, host, pinned

CARD = PciDevice(address="0000:01:00.0", vendor_id="8086", product_id="1")


def on_cpus(*numbers: int) -> InstanceNUMATopology:
    """Two pinned CPUs, fitted to these of the host."""
    (only,) = guest(pinned(len(numbers))).cells
    return guest(msgspec.structs.replace(only, cpu_pinning=tuple(enumerate(numbers))))


def audit(inputs: AuditInputs, *domains: Any, **more: Any) -> AuditResult:
    view = msgspec.structs.replace(a_view(*domains), numa_topology=host(cell()), pci_devices=(CARD,))
    return audit_node(view, inputs, SETTINGS, new_uuid="new", overhead=lambda flavor: Overhead(), **more)


def pinned_cpus(finding: AuditResult) -> set[int]:
    topology = finding.node_usage.node.numa_topology
    assert topology is not None
    return {cpu for cell in topology.cells for cpu in cell.pinned_cpus}


def test_an_instance_on_the_cpus_of_another_counts_without_its_cells() -> None:
    rows = tuple(an_instance(uuid, numa_topology=on_cpus(0, 1)) for uuid in ("one", "two"))
    finding = audit(AuditInputs(instances=rows))
    (conflict,) = finding.conflicts
    assert conflict.startswith("instance two has what another has: ")
    assert finding.node_usage.node.memory_mb_used == 512 + 2 * FLAVOR.memory_mb
    assert pinned_cpus(finding) == {0, 1}


def test_a_move_to_the_cpus_of_an_instance_counts_without_its_cells() -> None:
    move = Migration(
        uuid="m",
        instance_uuid="two",
        migration_type=MigrationType.RESIZE,
        status="migrating",
        source_compute="other",
        source_node="other",
        dest_compute="h",
        dest_node="n",
        old_flavor=FLAVOR,
        new_flavor=FLAVOR,
        new_numa_topology=on_cpus(0, 1),
    )
    instance = an_instance("one", numa_topology=on_cpus(0, 1))
    two = an_instance("two", host="other", node="other", vm_state=VmState.ACTIVE, task_state=TaskState.RESIZE_MIGRATING)
    finding = audit(AuditInputs(instances=(instance,), migrations=(move,), moved=(two,)))
    (conflict,) = finding.conflicts
    assert conflict.startswith("migration m holds what another has: ")
    assert finding.node_usage.node.memory_mb_used == 512 + 2 * FLAVOR.memory_mb
    assert pinned_cpus(finding) == {0, 1}


def test_a_guest_without_a_row_on_cpus_or_with_devices_of_another_counts_without_them() -> None:
    instance = an_instance("one", numa_topology=on_cpus(0, 1))
    own = msgspec.structs.replace(CARD, instance_uuid="stray", status="allocated")
    stray = an_instance("stray", numa_topology=on_cpus(1, 2), pci_devices=(own,))
    node = audit(AuditInputs()).node_usage.node
    taken = msgspec.structs.replace(CARD, instance_uuid="one", status="allocated")
    inputs = AuditInputs(node=msgspec.structs.replace(node, pci_devices=(taken,)), instances=(instance,))
    record = GuestRecord(instance=stray, attempt=3, node="n")
    finding = audit(inputs, a_domain("stray", attempt=3), records={"stray": record})
    assert [text.partition(":")[0] for text in finding.conflicts] == [
        "guest stray, which has no row here, has what another has"
    ] * 2
    assert pinned_cpus(finding) == {0, 1}
    assert [device.instance_uuid for device in finding.node_usage.node.pci_devices] == ["one"]
    assert finding.node_usage.node.local_gb_used == 1 + 2 * FLAVOR.root_gb
