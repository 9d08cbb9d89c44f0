"""What one instance takes from a host's cells and devices. Pure."""

from typing import NamedTuple

from minova.hardware.numa_fit import NoFit, PciNeeds, fit_topology
from minova.hardware.numa_usage import with_instance
from minova.hardware.pci_pools import GuestCells, Pools, cells_of, consumed, shortage
from minova.objects.hosts.numa import InstanceNUMATopology, NUMATopology, NUMATopologyLimits
from minova.objects.hosts.pci import InstancePCIRequest


class HardwareLeft(NamedTuple):
    topology: NUMATopology | None
    pools: Pools


def after_instance(
    topology: NUMATopology | None,
    pools: Pools,
    guest_topology: InstanceNUMATopology | None,
    requests: tuple[InstancePCIRequest, ...],
    *,
    limits: NUMATopologyLimits | None = None,
    packing: bool = False,
) -> HardwareLeft:
    """Returns the cells and pools after the instance is placed. An instance that does not fit, as on a forced host,
    takes nothing of them.
    """
    cells = None
    if guest_topology is not None and topology is None:
        # As in Nova: if a host reports no cells, the guest's own cells are used as the host's cells.
        cells = GuestCells(ids=frozenset(cell.id for cell in guest_topology.cells))
    elif guest_topology is not None and topology is not None:
        needs = PciNeeds(pools=pools, requests=requests)
        fit = fit_topology(topology, guest_topology, limits=limits, pci=needs, packing=packing)
        if not isinstance(fit, NoFit):
            cells, topology = cells_of(topology, fit), with_instance(topology, fit)
    if requests and shortage(pools, requests, cells) is None:
        pools = consumed(pools, requests, cells)
    return HardwareLeft(topology, pools)
