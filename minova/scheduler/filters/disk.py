"""DiskFilter, as in Nova 19: disk, overcommitted by its ratio; free disk is the lesser of the books and the disk."""

from collections.abc import Iterator

from minova.objects.request_spec import RequestSpec
from minova.scheduler.filters import Check, NumericFilter, at_least
from minova.scheduler.host_table import Hosts, HostState


class DiskFilter(NumericFilter):
    """Counts swap too, in MB."""

    def checks(self, hosts: Hosts, spec: RequestSpec) -> Iterator[Check]:
        flavor, total = spec.flavor, hosts.local_gb * 1024
        need = (flavor.root_gb + flavor.ephemeral_gb) * 1024 + flavor.swap
        used, limit = total - hosts.free_disk_mb, total * hosts.disk_allocation_ratio
        yield at_least("disk", total, need, "MB")
        yield at_least("free disk", limit - used, need, "MB", limit=limit, used=used)

    def limits(self, host: HostState) -> dict[str, float]:
        return {"disk_gb": host.local_gb * host.disk_allocation_ratio}
