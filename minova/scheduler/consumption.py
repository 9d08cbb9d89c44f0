"""What one instance takes from a host's cells and devices. Pure."""

from minova.hardware.numa_fit import NoFit, PciNeeds, fit_topology
from minova.hardware.numa_usage import with_instance
from minova.hardware.pci_pools import Pools, cells_of, consumed, shortage
from minova.objects.numa import InstanceNUMATopology, NUMATopology, NUMATopologyLimits
from minova.objects.pci import InstancePCIRequest


def taken(
    topology: NUMATopology | None,
    pools: Pools,
    wanted: InstanceNUMATopology | None,
    requests: tuple[InstancePCIRequest, ...],
    *,
    limits: NUMATopologyLimits | None = None,
    packing: bool = False,
) -> tuple[NUMATopology | None, Pools]:
    """The cells and pools once the instance is there. What does not fit, as on a forced host, takes nothing of them."""
    before, fitted = topology, None
    if topology is not None and wanted is not None:
        needs = PciNeeds(pools=pools, requests=requests)
        fit = fit_topology(topology, wanted, limits=limits, pci=needs, packing=packing)
        if not isinstance(fit, NoFit):
            topology, fitted = with_instance(topology, fit), fit
    cells = cells_of(before, fitted)
    if requests and shortage(pools, requests, cells) is None:
        pools = consumed(pools, requests, cells)
    return topology, pools
