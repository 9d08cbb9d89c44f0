"""Checks the driver's view of a node field by field, and logs audits in Nova's words."""

import logging

import msgspec

from minova import metrics
from minova.codecs import Decoder
from minova.compute.accounting.audit import AuditResult
from minova.compute.accounting.node_usage import NodeUsage
from minova.hardware import pci_devices
from minova.objects.hosts.compute_node import AvailableResources, ComputeNode

_VIEW = Decoder(AvailableResources)
LOG = logging.getLogger(__name__)


def validated(view: AvailableResources) -> AvailableResources:
    """Returns the driver's report with every field converted to its type. Raises ValueError with the name of the wrong
    field.
    """
    try:
        return _VIEW.from_builtins(msgspec.to_builtins(view))
    except msgspec.ValidationError as error:
        raise ValueError(f"The driver's view of node {view.node}: {error}") from None


def log_hypervisor_view(view: AvailableResources) -> None:
    LOG.debug(
        "Hypervisor resource view: name=%s free_ram=%dMB free_disk=%dGB free_vcpus=%d domains=%d pci_devices=%d",
        view.hypervisor_hostname,
        view.memory_mb - view.memory_mb_used,
        view.local_gb - view.local_gb_used,
        view.vcpus,
        len(view.domains),
        len(view.pci_devices),
    )


def log_final_view(node: ComputeNode) -> None:
    LOG.info(
        "Final resource view: name=%s phys_ram=%dMB used_ram=%dMB phys_disk=%dGB used_disk=%dGB "
        "total_vcpus=%d used_vcpus=%d pci_pools=%d stats=%s",
        node.hypervisor_hostname,
        node.memory_mb,
        node.memory_mb_used,
        node.local_gb,
        node.local_gb_used,
        node.vcpus,
        node.vcpus_used,
        len(node.pci_device_pools),
        node.stats,
    )


def log_finding(nodename: str, finding: AuditResult, before: NodeUsage | None) -> None:
    """Log once what operators should know of an audit: new orphans, conflicts, and figures that it corrected."""
    orphans_before = before.orphans if before is not None else {}
    for orphan, used in sorted(finding.node_usage.orphans.items()):
        if orphan not in orphans_before:
            LOG.warning(
                "Domain %s on node %s holds %d MB for no instance of this host", orphan, nodename, used.memory_mb
            )
    for address, owner in sorted(_removed(finding.node_usage) - (_removed(before) if before is not None else set())):
        LOG.warning(
            "PCI device %s on node %s is gone or no longer in device_spec: instance %s has it", address, nodename, owner
        )
    for conflict in finding.conflicts:
        LOG.error("Node %s: %s", nodename, conflict)
    # The first audit of a process corrects nothing: the process had no figures yet.
    for drift in finding.drift if before is not None else ():
        metrics.DRIFT.labels(drift.figure).inc()
        LOG.warning("The audit of node %s corrected %s", nodename, drift)
    for drift in finding.restored:
        metrics.DRIFT.labels(drift.figure).inc()
        LOG.warning("The audit of node %s restored %s: %s: %s", nodename, drift.figure, drift.kept, drift.found)
    for instance_uuid, in_row in finding.power_states.items():
        LOG.info(
            "The guest of instance %s on node %s is not as its row says: %s, %s",
            instance_uuid,
            nodename,
            in_row.vm_state,
            in_row.power_state.name,
        )


def _removed(node_usage: NodeUsage) -> set[tuple[str, str | None]]:
    """Returns devices that the host no longer has, with the instances that use them."""
    return {
        (device.address, device.instance_uuid)
        for device in node_usage.node.pci_devices
        if device.status == pci_devices.REMOVED
    }
