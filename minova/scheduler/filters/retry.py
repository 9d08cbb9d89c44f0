"""RetryFilter, as in Nova 20: excludes the nodes on which this build has already failed."""

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters.by_name import NamedHosts, NameFilter


class RetryFilter(NameFilter):
    def named_hosts(self, spec: RequestSpec) -> NamedHosts | None:
        tried = set(spec.retry.hosts)
        return NamedHosts(tried, f"tried already, as {len(tried)} in all", but=True) if tried else None
