"""PCIWeigher: hosts with few free PCI devices first, so that those with many are kept for requests that need them."""

from collections.abc import Sequence
from typing import Any

from minova.objects.hosts.pci import PciDevicePool
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.hosts.table import Hosts
from minova.scheduler.weights import Weigher

# More devices than this make no difference (Nova's number).
MAX_COUNTED = 100


class PCIWeigher(Weigher):
    option = "pci_weight_multiplier"

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Any:
        return hosts.number_of_each("pci_pools", weight)


def weight(pools: Sequence[PciDevicePool]) -> float:
    return MAX_COUNTED - min(sum(pool.count for pool in pools), MAX_COUNTED - 1)
