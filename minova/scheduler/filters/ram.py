"""RamFilter, as in Nova 19: memory, overcommitted by its ratio."""

from collections.abc import Iterator

from minova.objects.request_spec import RequestSpec
from minova.scheduler.filters import Check, NumericFilter, at_least
from minova.scheduler.host_table import Hosts, HostState


class RamFilter(NumericFilter):
    """An instance larger than the host itself is refused, however large the ratio."""

    def checks(self, hosts: Hosts, spec: RequestSpec) -> Iterator[Check]:
        need, limit, used = spec.flavor.memory_mb, hosts.memory_mb * hosts.ram_allocation_ratio, hosts.memory_mb_used
        yield at_least("memory", hosts.memory_mb, need, "MB")
        yield at_least("free memory", limit - used, need, "MB", limit=limit, used=used)

    def limits(self, host: HostState) -> dict[str, float]:
        return {"memory_mb": host.memory_mb * host.ram_allocation_ratio}
