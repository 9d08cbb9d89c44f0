"""IoOpsFilter and AggregateIoOpsFilter: hosts where not too many instances are being built, moved or copied."""

from collections.abc import Iterator
from typing import Any

from minova.objects.requests.checks import below
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters import Check, NumericFilter
from minova.scheduler.hosts.aggregate_values import AggregateNumber
from minova.scheduler.hosts.table import Hosts


class IoOpsFilter(NumericFilter):
    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self.most: int = conf.filter_scheduler.max_io_ops_per_host

    def limit(self, hosts: Hosts) -> Any:
        return self.most

    def checks(self, hosts: Hosts, spec: RequestSpec) -> Iterator[Check]:
        yield below("I/O operations", hosts.num_io_ops, self.limit(hosts))


class AggregateIoOpsFilter(IoOpsFilter):
    """The lowest `max_io_ops_per_host` of the host's aggregates overrides the option."""

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self._override = AggregateNumber("max_io_ops_per_host", int)

    def limit(self, hosts: Hosts) -> Any:
        return self._override.over(hosts, self.most)
