"""What an audit reports as drift."""

import msgspec

from minova.compute.accounting.drift import drift_of
from minova.objects.hosts.compute_node import ComputeNode

NODE = ComputeNode(uuid="u", host="h", hypervisor_hostname="n")


def test_bug_delete_in_progress_is_reported_as_drift() -> None:
    busy = msgspec.structs.replace(NODE, current_workload=1)
    assert drift_of(NODE, busy) == drift_of(busy, NODE) == ()
    audited_node = msgspec.structs.replace(busy, running_vms=1)
    assert [(drift.figure, drift.kept, drift.found) for drift in drift_of(NODE, audited_node)] == [
        ("running_vms", "0", "1")
    ]
