"""DiskFilter and AggregateDiskFilter, as in Nova 19 and 20, and LocalDiskFilter.

Free disk is the lower of the accounted and the physically free disk.
"""

from collections.abc import Iterator
from typing import Any

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters import Check, NumericFilter, at_least, enough_free
from minova.scheduler.hosts.aggregate_values import AggregateNumber
from minova.scheduler.hosts.table import Hosts, HostState


class DiskFilter(NumericFilter):
    """Disk is overcommitted by the host's ratio. Swap counts too, in MB."""

    def ratio(self, hosts: Hosts) -> Any:
        return hosts.disk_allocation_ratio

    def checks(self, hosts: Hosts, spec: RequestSpec) -> Iterator[Check]:
        need, total = need_mb(spec), hosts.local_gb * 1024
        used, limit = total - hosts.free_disk_mb, total * self.ratio(hosts)
        yield at_least("disk", total, need, "MB")
        yield enough_free("disk", limit - used, need, "MB", limit=limit, used=used)

    def limits(self, host: HostState) -> dict[str, float]:
        return {"disk_gb": host.local_gb * self.ratio(host)}


class AggregateDiskFilter(DiskFilter):
    """The lowest `disk_allocation_ratio` of the host's aggregates overrides the host's own ratio."""

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self._override = AggregateNumber("disk_allocation_ratio")

    def ratio(self, hosts: Hosts) -> Any:
        return self._override.over(hosts, hosts.disk_allocation_ratio)


class LocalDiskFilter(NumericFilter):
    """Checks physically free disk, without overcommitment."""

    def checks(self, hosts: Hosts, spec: RequestSpec) -> Iterator[Check]:
        yield enough_free("local disk", hosts.free_disk_mb, need_mb(spec), "MB")


def need_mb(spec: RequestSpec) -> int:
    flavor = spec.flavor
    return (flavor.root_gb + flavor.ephemeral_gb) * 1024 + flavor.swap
