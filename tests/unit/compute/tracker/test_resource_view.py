"""What the log says of an audit."""

import logging
from typing import Any

import msgspec
import pytest

from minova import metrics
from minova.compute.accounting.audit import AuditResult
from minova.compute.accounting.node_usage import NodeUsage
from minova.compute.accounting.usage import Usage
from minova.compute.tracker.resource_view import log_finding, log_hypervisor_view, validated
from minova.hardware.pci_devices import ALLOCATED, REMOVED
from minova.objects.actions.power_rules import RowStates
from minova.objects.hosts.compute_node import AvailableResources, ComputeNode
from minova.objects.hosts.node_audit import Drift
from minova.objects.hosts.pci import PciDevice
from minova.objects.servers.states import PowerState, VmState

NODE = ComputeNode(uuid="u", host="h", hypervisor_hostname="n")
USED = Usage(memory_mb=64, disk_gb=0, vcpus=1)
CARD = PciDevice(address="0000:01:00.0", vendor_id="8086", product_id="1", status=REMOVED, instance_uuid="i")
DRIFT = Drift(figure="vcpus_used", kept="1", found="2")
ORPHAN = ("WARNING", "Domain o on node n holds 64 MB for no instance of this host")
GONE = ("WARNING", "PCI device 0000:01:00.0 on node n is gone or no longer in device_spec: instance i has it")


def usage_of(*orphans: str, devices: tuple[PciDevice, ...] = ()) -> NodeUsage:
    node = msgspec.structs.replace(NODE, pci_devices=devices)
    return NodeUsage(node=node, orphans=dict.fromkeys(orphans, USED))


def lines(caplog: pytest.LogCaptureFixture, before: NodeUsage | None, after: NodeUsage, **found: Any) -> list[Any]:
    nothing: dict[str, Any] = {"inventories": (), "unexpected_domains": (), "attempts": (), "power_states": {}}
    caplog.set_level(logging.INFO)
    caplog.clear()
    log_finding("n", AuditResult(node_usage=after, **(nothing | found)), before)
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_orphans_and_lost_devices_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    kept = msgspec.structs.replace(CARD, address="0000:02:00.0", status=ALLOCATED)
    usage = usage_of("o", devices=(CARD, kept))
    assert lines(caplog, None, usage) == [ORPHAN, GONE]
    assert lines(caplog, usage_of(), usage) == [ORPHAN, GONE]
    assert lines(caplog, usage, usage) == []
    assert lines(caplog, usage_of("other"), usage_of("o", "other")) == [ORPHAN]


def test_corrections_count_from_the_second_audit_on_and_what_was_restored_always(
    caplog: pytest.LogCaptureFixture,
) -> None:
    restored = ("WARNING", "The audit of node n restored vcpus_used: 1: 2")
    corrected = f"The audit of node n corrected {DRIFT}"
    assert lines(caplog, None, usage_of(), drift=(DRIFT,), restored=(DRIFT,)) == [restored]
    assert lines(caplog, usage_of(), usage_of(), drift=(DRIFT,)) == [("WARNING", corrected)]


def test_conflicts_and_other_power_states(caplog: pytest.LogCaptureFixture) -> None:
    states = {"i": RowStates(VmState.ACTIVE, PowerState.RUNNING)}
    assert lines(caplog, None, usage_of(), conflicts=("two have it",), power_states=states) == [
        ("ERROR", "Node n: two have it"),
        ("INFO", "The guest of instance i on node n is not as its row says: active, RUNNING"),
    ]


def test_the_view_of_the_hypervisor_is_checked_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    view = AvailableResources(
        node="n",
        hypervisor_hostname="n",
        hypervisor_type="QEMU",
        hypervisor_version=7002000,
        vcpus=4,
        memory_mb=100,
        memory_mb_used=30,
        local_gb=9,
        local_gb_used=2,
    )
    assert validated(view) == view
    log_hypervisor_view(view)
    assert caplog.messages == [
        "Hypervisor resource view: name=n free_ram=70MB free_disk=7GB free_vcpus=4 domains=0 pci_devices=0"
    ]
    with pytest.raises(ValueError, match=r"The driver's view of node n: .*vcpus"):
        validated(msgspec.structs.replace(view, vcpus="four"))


def counted() -> float:
    samples = next(iter(metrics.DRIFT.collect())).samples
    return sum(
        sample.value for sample in samples if sample.name.endswith("_total") and DRIFT.figure in sample.labels.values()
    )


@pytest.mark.parametrize(("before", "more"), [(None, 1), (usage_of(), 2)])
def test_corrections_and_restored_allocations_are_counted(before: NodeUsage | None, more: int) -> None:
    begun = counted()
    nothing: dict[str, Any] = {"inventories": (), "unexpected_domains": (), "attempts": (), "power_states": {}}
    log_finding("n", AuditResult(node_usage=usage_of(), drift=(DRIFT,), restored=(DRIFT,), **nothing), before)
    assert counted() - begun == more
