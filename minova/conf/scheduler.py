"""Options of the scheduler. Nova has them in two groups, [scheduler] and [filter_scheduler]."""

from oslo_config import cfg

GROUP = "filter_scheduler"

DEFAULT_FILTERS = [
    "AvailabilityZoneFilter",
    "ComputeFilter",
    "RamFilter",
    "DiskFilter",
    "CoreFilter",
    "ImagePropertiesFilter",
]

OPTS: list[cfg.Opt] = [
    cfg.ListOpt(
        "enabled_filters",
        default=DEFAULT_FILTERS,
        help="Filters in the order in which they run: names of entry points, or dotted paths of classes.",
    ),
    cfg.ListOpt(
        "weight_classes",
        default=["all"],
        help="Weighers: `all`, names of entry points, or dotted paths of classes.",
    ),
    cfg.IntOpt(
        "host_subset_size",
        default=1,
        min=1,
        help="The chosen host is drawn from this many of the best.",
    ),
    cfg.BoolOpt(
        "shuffle_best_same_weighed_hosts",
        default=False,
        help="Draw among the best hosts of equal weight.",
    ),
    cfg.StrOpt(
        "image_properties_default_architecture",
        help="Architecture (i686, x86_64, ...) that ImagePropertiesFilter takes for images that name none.",
    ),
    cfg.FloatOpt(
        "ram_weight_multiplier",
        default=1.0,
        help="Weight of free memory; negative stacks instead of spreads.",
    ),
    cfg.FloatOpt("cpu_weight_multiplier", default=1.0, help="Weight of free vCPUs."),
    cfg.FloatOpt("disk_weight_multiplier", default=1.0, help="Weight of free disk."),
]
