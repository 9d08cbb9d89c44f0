"""NUMATopologyFilter: passes hosts whose NUMA cells can hold the guest. Counts decide for all hosts at once. If devices
tie the guest to cells, the remaining hosts get the exact fit, once for each group of equivalent hosts.
"""

from typing import Any

import numpy as np

from minova.hardware.numa_counts import counts_of, needs_of
from minova.hardware.numa_fit import NoFit, PciNeeds, cells_for
from minova.hardware.pci_pools import Pools
from minova.objects.hosts.numa import NUMATopology, NUMATopologyLimits
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters import Filter, Verdict, all_of
from minova.scheduler.hosts.table import Hosts, HostState, HostTable, Mask

NO_THREADS = "CPU thread policy require, but the host has no hardware threads"


class NUMATopologyFilter(Filter):
    def filter_table(self, hosts: HostTable, left: Mask, spec: RequestSpec) -> Verdict:
        threads = wants_threads(spec)
        if spec.numa_topology is None and not threads:
            return all_of([], len(hosts))
        passed = np.ones(len(hosts), bool)
        if threads:
            passed &= hosts.by_class("numa_topology", lambda topology: topology is None or has_threads(topology))
        if spec.numa_topology is not None:
            fitting, exact = hosts.numa.fitting(needs_of(spec.numa_topology), limits_of(hosts))
            passed &= fitting
            if spec.pci_requests or not exact:
                passed[~left] = False
                self._look_closely(hosts, passed, spec)
        return Verdict(passed, lambda rows: [self.refusal_reason(hosts.host(row), spec) or "" for row in rows.tolist()])

    def refusal_reason(self, host: HostState, spec: RequestSpec) -> str | None:
        topology = host.numa_topology
        if topology is not None and wants_threads(spec) and not has_threads(topology):
            return NO_THREADS
        if spec.numa_topology is None:
            return None
        if topology is None:
            return "the host reports no NUMA topology"
        return misfit(topology, spec, limits_of(host), host.pci_pools)

    def limits(self, host: HostState) -> dict[str, Any]:
        return {} if host.numa_topology is None else {"numa_topology": limits_of(host)}

    def _look_closely(self, hosts: HostTable, passed: Mask, spec: RequestSpec) -> None:
        fits: dict[Any, bool] = {}
        alike = [hosts.class_column(name).ids for name in ("numa_topology", "pci_pools")]
        for row in np.flatnonzero(passed).tolist():
            host = hosts.host(row)
            key = (alike[0][row], alike[1][row], limits_of(host))
            if key not in fits:
                fits[key] = misfit(host.numa_topology, spec, key[2], host.pci_pools) is None
            passed[row] = fits[key]


def limits_of(hosts: Hosts) -> NUMATopologyLimits:
    return NUMATopologyLimits(
        cpu_allocation_ratio=hosts.cpu_allocation_ratio, ram_allocation_ratio=hosts.ram_allocation_ratio
    )


def misfit(topology: NUMATopology, spec: RequestSpec, limits: NUMATopologyLimits | None, pools: Pools) -> str | None:
    """Returns why the guest does not fit, or None. The order in which the cells are tried does not matter here."""
    assert spec.numa_topology is not None
    pci = PciNeeds(pools=pools, requests=spec.pci_requests)
    cells = cells_for(topology, counts_of(topology), needs_of(spec.numa_topology), limits=limits, pci=pci)
    return cells.reason if isinstance(cells, NoFit) else None


def wants_threads(spec: RequestSpec) -> bool:
    """Nova checks the requested policy itself, whether or not the request has a topology."""
    properties = spec.image.properties if spec.image else {}
    wishes = [
        (spec.flavor.extra_specs.get(f"hw:{key}"), properties.get(f"hw_{key}"))
        for key in ("cpu_policy", "cpu_thread_policy")
    ]
    return "dedicated" in wishes[0] and "require" in wishes[1]


def has_threads(topology: NUMATopology) -> bool:
    return any(len(core) > 1 for cell in topology.cells for core in cell.siblings)
