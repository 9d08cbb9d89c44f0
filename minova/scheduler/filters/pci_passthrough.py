"""PciPassthroughFilter: passes hosts with the requested free devices. NUMATopologyFilter checks their NUMA affinity."""

from minova.hardware.pci_pools import Pools, shortage
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters import ClassFilter


class PciPassthroughFilter(ClassFilter):
    of = "pci_pools"

    def asks(self, spec: RequestSpec) -> bool:
        return bool(spec.pci_requests)

    def verdict(self, value: Pools, spec: RequestSpec) -> str | None:
        return shortage(value, spec.pci_requests)
