"""NumInstancesFilter and AggregateNumInstancesFilter: hosts with not too many instances."""

from collections.abc import Iterator
from typing import Any

from minova.objects.requests.checks import below
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters import Check, NumericFilter
from minova.scheduler.hosts.aggregate_values import AggregateNumber
from minova.scheduler.hosts.table import Hosts


class NumInstancesFilter(NumericFilter):
    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self.most: int = conf.filter_scheduler.max_instances_per_host

    def limit(self, hosts: Hosts) -> Any:
        return self.most

    def checks(self, hosts: Hosts, spec: RequestSpec) -> Iterator[Check]:
        yield below("instances", hosts.num_instances, self.limit(hosts))


class AggregateNumInstancesFilter(NumInstancesFilter):
    """The lowest `max_instances_per_host` of the host's aggregates overrides the option."""

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self._override = AggregateNumber("max_instances_per_host", int)

    def limit(self, hosts: Hosts) -> Any:
        return self._override.over(hosts, self.most)
