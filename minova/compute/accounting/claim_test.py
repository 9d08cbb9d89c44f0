"""Tests whether a request still fits on this node. Pure: compares the scheduler's limits with the usage tracked
here.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from minova.compute.accounting.usage import Usage
from minova.hardware import pci_devices, pci_pools
from minova.hardware.errors import PciDeviceRequestFailed
from minova.hardware.numa_fit import NoFit, PciNeeds, fit_topology
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.hosts.pci import InstancePCIRequest
from minova.objects.requests.request_spec import HostLimits

# Nova's words.
NO_NUMA = "Requested instance NUMA topology cannot fit the given host NUMA topology"
NO_NUMA_WITH_PCI = (
    "Requested instance NUMA topology together with requested PCI devices cannot fit the given host NUMA topology"
)
NO_PCI = "Claim pci failed"


class ResourceCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One resource of a claim. `limit` None means unlimited."""

    kind: str
    unit: str
    total: int
    used: int
    requested: int
    limit: float | None

    @property
    def reason(self) -> str | None:
        """Why the request does not fit, or None."""
        if self.limit is None:
            return None
        free = self.limit - self.used
        if self.requested <= free:
            return None
        return f"Free {self.kind} {free:.2f} {self.unit} < requested {self.requested} {self.unit}"

    def lines(self) -> tuple[str, ...]:
        """Returns the log lines of this check, in Nova's words."""
        total = f"Total {self.kind}: {self.total} {self.unit}, used: {self.used:.2f} {self.unit}"
        if self.limit is None:
            return total, f"{self.kind} limit not specified, defaulting to unlimited"
        free = self.limit - self.used
        return total, f"{self.kind} limit: {self.limit:.2f} {self.unit}, free: {free:.2f} {self.unit}"


def checks_of(node: ComputeNode, usage: Usage, limits: HostLimits) -> tuple[ResourceCheck, ...]:
    """Returns one ResourceCheck for each of memory, disk and vcpu. `node` is as it was before the claim."""
    return (
        ResourceCheck(
            kind="memory",
            unit="MB",
            total=node.memory_mb,
            used=node.memory_mb_used,
            requested=usage.memory_mb,
            limit=limits.memory_mb,
        ),
        ResourceCheck(
            kind="disk",
            unit="GB",
            total=node.local_gb,
            used=node.local_gb_used,
            requested=usage.disk_gb,
            limit=limits.disk_gb,
        ),
        ResourceCheck(
            kind="vcpu",
            unit="VCPU",
            total=node.vcpus,
            used=node.vcpus_used,
            requested=usage.vcpus,
            limit=limits.vcpu,
        ),
    )


class Misfit(NamedTuple):
    """Why a guest's cells or devices do not fit. `kind`: numa or pci."""

    kind: Literal["numa", "pci"]
    reason: str


class HardwareFit(msgspec.Struct, frozen=True, kw_only=True):
    """How a guest fits the cells and devices of this node. `numa_topology` is None for a guest without cells, or for a
    node that reports none.
    """

    numa_topology: InstanceNUMATopology | None = None
    misfits: tuple[Misfit, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(misfit.reason for misfit in self.misfits)


def hardware_fit(
    node: ComputeNode,
    numa_topology: InstanceNUMATopology | None,
    requests: Sequence[InstancePCIRequest],
    limits: HostLimits,
    *,
    packing: bool,
) -> HardwareFit:
    """Runs the NUMA and PCI tests of a claim. Each reason is in Nova's words, followed by what is short in brackets.

    As in Nova, a node that reports no cells takes every guest: the scheduler has checked it.
    """
    pci = PciNeeds(pools=node.pci_device_pools, requests=tuple(requests))
    misfits = []
    fitted = None
    if numa_topology is not None and node.numa_topology is not None:
        fit = fit_topology(node.numa_topology, numa_topology, limits=limits.numa_topology, pci=pci, packing=packing)
        if isinstance(fit, NoFit):
            misfits.append(Misfit("numa", f"{NO_NUMA_WITH_PCI if requests else NO_NUMA} ({fit.reason})"))
        else:
            fitted = fit
    short = pci_pools.shortage(pci.pools, pci.requests)
    if short is not None:
        misfits.append(Misfit("pci", f"{NO_PCI} ({short})"))
    return HardwareFit(numa_topology=fitted, misfits=tuple(misfits))


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that a claim requests. `usage` is without cells; `numa_topology` is as requested, not fitted
    yet.
    """

    usage: Usage
    numa_topology: InstanceNUMATopology | None = None
    pci_requests: tuple[InstancePCIRequest, ...] = ()


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a claim: the fitted cells and {address of a device: request it serves}, or the `reason` of the
    refusal.

    `refused` contains the kinds of resource that are short, `lines` the log lines.
    """

    numa_topology: InstanceNUMATopology | None = None
    devices: dict[str, str | None] = {}
    reason: str | None = None
    refused: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


def fit_of(node: ComputeNode, demand: Demand, limits: HostLimits, *, packing: bool) -> Fit:
    """Run all five tests. The result contains every reason, not only the first."""
    checks = checks_of(node, demand.usage, limits)
    hardware = hardware_fit(node, demand.numa_topology, demand.pci_requests, limits, packing=packing)
    short = tuple(check for check in checks if check.reason is not None)
    lines = tuple(line for check in checks for line in check.lines())
    devices, unmet = _devices_for(node, demand, hardware)
    misfits = (*hardware.misfits, *unmet)
    reason = reasons_against(checks, [misfit.reason for misfit in misfits])
    if reason is not None:
        return Fit(
            reason=reason,
            refused=(*(check.kind for check in short), *(misfit.kind for misfit in misfits)),
            lines=lines,
        )
    # A node that reports no cells takes the guest as requested.
    fitted = hardware.numa_topology or demand.numa_topology
    return Fit(numa_topology=fitted, devices=devices, lines=lines)


def _devices_for(
    node: ComputeNode, demand: Demand, hardware: HardwareFit
) -> tuple[dict[str, str | None], tuple[Misfit, ...]]:
    """Returns the devices of the claim, or why there are none: pools do not show that a PF is taken together with its
    VFs.
    """
    if hardware.misfits or not demand.pci_requests:
        return {}, ()
    cells = pci_pools.cells_of(node.numa_topology, hardware.numa_topology)
    try:
        return pci_devices.chosen(node.pci_devices, demand.pci_requests, cells), ()
    except PciDeviceRequestFailed as error:
        return {}, (Misfit("pci", f"{NO_PCI} ({error})"),)


def reasons_against(checks: Iterable[ResourceCheck], hardware: Iterable[str] = ()) -> str | None:
    """Returns every reason against the claim, including those of its `HardwareFit`, joined; None if it fits."""
    reasons = [check.reason for check in checks if check.reason is not None]
    return "; ".join((*reasons, *hardware)) or None
