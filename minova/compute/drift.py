"""How far the figures kept since the last audit were from what an audit finds. Pure."""

from minova.objects.compute_node import ComputeNode
from minova.objects.node_audit import Drift

# What instances and moves take; the rest of a node is the hypervisor's to say.
FIGURES = ("memory_mb_used", "local_gb_used", "vcpus_used", "running_vms", "current_workload")


def drift_of(kept: ComputeNode | None, found: ComputeNode) -> tuple[Drift, ...]:
    """Nothing for a node that was not known before."""
    if kept is None:
        return ()
    pairs = [(name, str(getattr(kept, name)), str(getattr(found, name))) for name in FIGURES]
    pairs += [("pinned_cpus", _pinned(kept), _pinned(found)), ("pci_devices", _taken(kept), _taken(found))]
    return tuple(Drift(figure=name, kept=was, found=now) for name, was, now in pairs if was != now)


def _pinned(node: ComputeNode) -> str:
    cells = node.numa_topology.cells if node.numa_topology is not None else ()
    return str(sorted(cpu for cell in cells for cpu in cell.pinned_cpus))


def _taken(node: ComputeNode) -> str:
    taken = [f"{device.address} {device.instance_uuid}" for device in node.pci_devices if device.instance_uuid]
    return ", ".join(taken) or "none taken"
