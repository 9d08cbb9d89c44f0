"""MetricsFilter: passes hosts that report every metric that the MetricsWeigher needs."""

from typing import Any

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters import ClassFilter
from minova.scheduler.hosts.record import Metric
from minova.scheduler.weights.ratios import ratios


class MetricsFilter(ClassFilter):
    of = "metrics"

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self.required_metrics = {name for name, _ in ratios(conf.metrics.weight_setting, "[metrics] weight_setting")}

    def verdict(self, value: tuple[Metric, ...], spec: RequestSpec) -> str | None:
        missing = self.required_metrics - {metric.name for metric in value}
        return f"no metric {', '.join(sorted(missing))}" if missing else None
