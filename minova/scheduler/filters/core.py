"""CoreFilter and AggregateCoreFilter, as in Nova 19 and 20: vCPUs, overcommitted by their ratio."""

from collections.abc import Iterator
from typing import Any

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters import Check, NumericFilter, at_least, enough_free
from minova.scheduler.hosts.aggregate_values import AggregateNumber
from minova.scheduler.hosts.table import Hosts, HostState


class CoreFilter(NumericFilter):
    """A host that reports no CPUs at all passes: its report is considered broken."""

    def ratio(self, hosts: Hosts) -> Any:
        return hosts.cpu_allocation_ratio

    def checks(self, hosts: Hosts, spec: RequestSpec) -> Iterator[Check]:
        need, limit, used = spec.flavor.vcpus, hosts.vcpus * self.ratio(hosts), hosts.vcpus_used
        unknown = hosts.vcpus == 0
        yield at_least("vcpus", hosts.vcpus, need).unless(unknown)
        yield enough_free("vcpus", limit - used, need, limit=limit, used=used).unless(unknown)

    def limits(self, host: HostState) -> dict[str, float]:
        limit = host.vcpus * self.ratio(host)
        return {"vcpu": limit} if limit > 0 else {}


class AggregateCoreFilter(CoreFilter):
    """The lowest `cpu_allocation_ratio` of the host's aggregates overrides the host's own ratio."""

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self._override = AggregateNumber("cpu_allocation_ratio")

    def ratio(self, hosts: Hosts) -> Any:
        return self._override.over(hosts, hosts.cpu_allocation_ratio)
