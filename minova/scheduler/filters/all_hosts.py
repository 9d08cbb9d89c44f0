"""AllHostsFilter: every host passes."""

from collections.abc import Iterator

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters import Check, NumericFilter
from minova.scheduler.hosts.table import Hosts


class AllHostsFilter(NumericFilter):
    def checks(self, hosts: Hosts, spec: RequestSpec) -> Iterator[Check]:
        return iter(())
