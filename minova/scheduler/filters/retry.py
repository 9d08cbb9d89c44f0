"""RetryFilter, as in Nova 20: not the nodes on which this build has failed already."""

from minova.objects.request_spec import RequestSpec
from minova.scheduler.filters.by_name import NameFilter, NameTest


class RetryFilter(NameFilter):
    def test(self, spec: RequestSpec) -> NameTest | None:
        tried = set(spec.retry.hosts)
        if not tried:
            return None
        reason = f"tried already, as {len(tried)} in all"
        return NameTest(lambda host, node: (host, node) not in tried, lambda host, node: reason)
