"""Compares the figures tracked since the last audit with those that an audit finds. Pure."""

from collections.abc import Iterable

import msgspec

from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.hosts.node_audit import Drift
from minova.objects.servers.build import AuditInputs

# Figures that instances and moves determine; the hypervisor determines the rest of a node.
FIGURES = ("memory_mb_used", "local_gb_used", "vcpus_used", "running_vms", "current_workload")


# Other columns of a row that only the compute writes.
TOTALS = ("memory_mb", "local_gb", "vcpus", "free_ram_mb", "free_disk_gb")


def drift_of(kept: ComputeNode | None, audited: ComputeNode) -> tuple[Drift, ...]:
    """Returns the figures that differ; empty for a node that was not known before."""
    if kept is None:
        return ()
    # Work in progress begins and ends between audits: it is not drift.
    tracked = [name for name in FIGURES if name != "current_workload"]
    was, now = _figures(kept, tracked), _figures(audited, tracked)
    return tuple(Drift(figure=name, kept=was[name], found=now[name]) for name in now if was[name] != now[name])


def edited(written: ComputeNode | None, row: ComputeNode | None, audited: ComputeNode) -> tuple[Drift, ...]:
    """Returns changes of the row since this process wrote it that the audit corrects; empty if its last write is not known."""
    if written is None:
        return ()
    if row is None:
        return (Drift(figure="row", kept="none", found=audited.hypervisor_hostname),)
    was, now, then = (_figures(node, FIGURES + TOTALS) for node in (row, audited, written))
    return tuple(
        Drift(figure=f"row's {name}", kept=was[name], found=now[name])
        for name in was
        if was[name] != then[name] and was[name] != now[name]
    )


def with_own_devices(inputs: AuditInputs, written: ComputeNode | None) -> AuditInputs:
    """Keep the devices as this process wrote them, whatever their rows say now: a guest may use them."""
    if written is None or inputs.node is None or _assigned_devices(inputs.node) == _assigned_devices(written):
        return inputs
    node = msgspec.structs.replace(inputs.node, pci_devices=written.pci_devices)
    return msgspec.structs.replace(inputs, node=node)


def _figures(node: ComputeNode, names: Iterable[str] = FIGURES) -> dict[str, str]:
    figures = {name: str(getattr(node, name)) for name in names}
    return {**figures, "pinned_cpus": _pinned(node), "pci_devices": _assigned_devices(node)}


def _pinned(node: ComputeNode) -> str:
    cells = node.numa_topology.cells if node.numa_topology is not None else ()
    return str(sorted(cpu for cell in cells for cpu in cell.pinned_cpus))


def _assigned_devices(node: ComputeNode) -> str:
    assigned_devices = [
        f"{device.address} {device.instance_uuid}" for device in node.pci_devices if device.instance_uuid
    ]
    return ", ".join(assigned_devices) or "none taken"
