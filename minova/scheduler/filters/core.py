"""CoreFilter, as in Nova 19: vCPUs, overcommitted by their ratio."""

from collections.abc import Iterator

from minova.objects.request_spec import RequestSpec
from minova.scheduler.filters import Check, NumericFilter, at_least
from minova.scheduler.host_table import Hosts, HostState


class CoreFilter(NumericFilter):
    """A host that reports no CPUs at all passes: its count is broken, not its CPUs."""

    def checks(self, hosts: Hosts, spec: RequestSpec) -> Iterator[Check]:
        need, limit, used = spec.flavor.vcpus, hosts.vcpus * hosts.cpu_allocation_ratio, hosts.vcpus_used
        unknown = hosts.vcpus == 0
        yield at_least("vcpus", hosts.vcpus, need).unless(unknown)
        yield at_least("free vcpus", limit - used, need, limit=limit, used=used).unless(unknown)

    def limits(self, host: HostState) -> dict[str, float]:
        limit = host.vcpus * host.cpu_allocation_ratio
        return {"vcpu": limit} if limit > 0 else {}
