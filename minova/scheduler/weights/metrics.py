"""MetricsWeigher: the sum of a host's metrics, each times its ratio ([metrics] weight_setting)."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minova import errors
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.hosts.aggregate_values import AggregateNumber
from minova.scheduler.hosts.record import Metric
from minova.scheduler.hosts.table import Hosts, HostTable
from minova.scheduler.weights import Weigher
from minova.scheduler.weights.ratios import ratios


class ComputeHostMetricNotFound(errors.NotFound):
    """A host lacks a metric that `[metrics] weight_setting` requires."""


class MetricsWeigher(Weigher):
    """If a host lacks a metric, the request fails ([metrics] required) or the host weighs `weight_of_unavailable`. If
    the host's multiplier or the metric's ratio is 0, the metric counts as 0.
    """

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        options = conf.metrics
        self.ratios = ratios(options.weight_setting, "[metrics] weight_setting")
        self.multiplier = options.weight_multiplier
        self.required: bool = options.required
        self.unavailable: float = options.weight_of_unavailable
        self._override = AggregateNumber("metrics_weight_multiplier")

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Any:
        if not self.ratios:
            return 0
        weights = hosts.number_of_each("metrics", self._sum)
        if self.required:
            return weights
        multipliers = self._override.over(hosts, self.multiplier)
        of_present = hosts.number_of_each("metrics", self._sum_of_present)
        return np.where(np.equal(multipliers, 0), of_present, weights)

    def column(self, hosts: HostTable, rows: Any, spec: RequestSpec) -> Any:
        values = super().column(hosts, rows, spec)
        if self.required and self.ratios:
            for row in rows[np.broadcast_to(np.isnan(values), len(rows))].tolist():
                self._complain(hosts.host(row))
        return values

    def _complain(self, host: Any) -> None:
        have = {metric.name for metric in host.metrics}
        for name, _ in self.ratios:
            if name not in have:
                raise ComputeHostMetricNotFound(f"Metric {name} could not be found on {host.host}.{host.nodename}.")

    def _sum(self, metrics: Sequence[Metric]) -> float:
        have = {metric.name for metric in metrics}
        missing = [ratio for name, ratio in self.ratios if name not in have]
        if missing and self.required:
            return math.nan
        return self.unavailable if any(missing) else self._sum_of_present(metrics)

    def _sum_of_present(self, metrics: Sequence[Metric]) -> float:
        values = {metric.name: metric.whole for metric in metrics}
        total = 0.0
        for name, ratio in self.ratios:
            total += values.get(name, 0) * ratio
        return total
