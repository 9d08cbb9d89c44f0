"""Group [metrics]: what MetricsFilter and MetricsWeigher make of what the hosts measure. As in Nova."""

from oslo_config import cfg

GROUP = "metrics"

OPTS: list[cfg.Opt] = [
    cfg.FloatOpt(
        "weight_multiplier",
        default=1.0,
        help="Weight of the metrics together. Aggregates may override it as metrics_weight_multiplier.",
    ),
    cfg.ListOpt(
        "weight_setting",
        default=[],
        help="Metrics that count, with their ratios: `cpu.percent=-1.0, cpu.frequency=0.01`.",
    ),
    cfg.BoolOpt(
        "required",
        default=True,
        help="A host without one of these metrics makes the request fail: see MetricsFilter.",
    ),
    cfg.FloatOpt(
        "weight_of_unavailable",
        default=-10000.0,
        help="What a host without one of them weighs where they are not required.",
    ),
]
