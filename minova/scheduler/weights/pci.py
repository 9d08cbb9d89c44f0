"""PCIWeigher: hosts with few free PCI devices first, so that those with many are kept for who needs them."""

from collections.abc import Sequence
from typing import Any

from minova.objects.pci import PciDevicePool
from minova.objects.request_spec import RequestSpec
from minova.scheduler.hosts.class_value_cache import ClassValueCache
from minova.scheduler.hosts.table import Hosts
from minova.scheduler.weights import Weigher

# More devices than this make no difference (Nova's number).
MOST = 100


class PCIWeigher(Weigher):
    option = "pci_weight_multiplier"

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self._weights = ClassValueCache("pci_pools", weight)

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Any:
        return self._weights.over(hosts)


def weight(pools: Sequence[PciDevicePool]) -> float:
    return MOST - min(sum(pool.count for pool in pools), MOST - 1)
