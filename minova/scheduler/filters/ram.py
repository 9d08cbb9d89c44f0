"""RamFilter and AggregateRamFilter, as in Nova 19 and 20: memory, overcommitted by its ratio."""

from collections.abc import Iterator
from typing import Any

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters import Check, NumericFilter, at_least, enough_free
from minova.scheduler.hosts.aggregate_values import AggregateNumber
from minova.scheduler.hosts.table import Hosts, HostState


class RamFilter(NumericFilter):
    """An instance with more memory than the whole host is refused, however large the ratio is."""

    def ratio(self, hosts: Hosts) -> Any:
        return hosts.ram_allocation_ratio

    def checks(self, hosts: Hosts, spec: RequestSpec) -> Iterator[Check]:
        need, limit, used = spec.flavor.memory_mb, hosts.memory_mb * self.ratio(hosts), hosts.memory_mb_used
        yield at_least("memory", hosts.memory_mb, need, "MB")
        yield enough_free("memory", limit - used, need, "MB", limit=limit, used=used)

    def limits(self, host: HostState) -> dict[str, float]:
        return {"memory_mb": host.memory_mb * self.ratio(host)}


class AggregateRamFilter(RamFilter):
    """The lowest `ram_allocation_ratio` of the host's aggregates overrides the host's own ratio."""

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self._override = AggregateNumber("ram_allocation_ratio")

    def ratio(self, hosts: Hosts) -> Any:
        return self._override.over(hosts, hosts.ram_allocation_ratio)
