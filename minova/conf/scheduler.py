"""Group [filter_scheduler]: filters, weighers and what they go by. Names and defaults are Nova's, but for the chain."""

from oslo_config import cfg

GROUP = "filter_scheduler"

DEFAULT_FILTERS = [
    "AvailabilityZoneFilter",
    "ComputeFilter",
    "RamFilter",
    "DiskFilter",
    "CoreFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
    "PciPassthroughFilter",
    "NUMATopologyFilter",
]


def multiplier(name: str, default: float, what: str, **more: float) -> cfg.Opt:
    return cfg.FloatOpt(name, default=default, help=f"{what} Aggregates may override it under the same name.", **more)


CHAIN: list[cfg.Opt] = [
    cfg.MultiStrOpt(
        "available_filters",
        default=["nova.scheduler.filters.all_filters"],
        help="Where enabled_filters are found besides by entry point and dotted path: dotted paths of classes.",
    ),
    cfg.ListOpt(
        "enabled_filters",
        default=DEFAULT_FILTERS,
        help="Filters in the order in which they run: names of classes or entry points, or dotted paths.",
    ),
    cfg.ListOpt(
        "weight_classes",
        default=["nova.scheduler.weights.all_weighers"],
        help="Weighers: `all` (or Nova's all_weighers), names of entry points, or dotted paths of classes.",
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
    cfg.BoolOpt(
        "pci_in_placement",
        default=False,
        help="Checks [pci] alias as Nova does with this option: an alias has one value, and may name a resource_class in place "
        "of vendor_id and product_id; other aliases stop the start. Devices are always counted by their pools.",
    ),
]

FILTERS: list[cfg.Opt] = [
    cfg.IntOpt(
        "max_io_ops_per_host",
        default=8,
        min=0,
        help="IoOpsFilter: a host with this many builds, moves and snapshots at once gets no more.",
    ),
    cfg.IntOpt(
        "max_instances_per_host",
        default=50,
        min=1,
        help="NumInstancesFilter: a host with this many instances gets no more.",
    ),
    cfg.StrOpt(
        "image_properties_default_architecture",
        help="Architecture (i686, x86_64, ...) that ImagePropertiesFilter takes for images that name none.",
    ),
    cfg.ListOpt("isolated_images", default=[], help="IsolatedHostsFilter: ids of images for isolated_hosts only."),
    cfg.ListOpt("isolated_hosts", default=[], help="IsolatedHostsFilter: hosts for isolated_images."),
    cfg.BoolOpt(
        "restrict_isolated_hosts_to_isolated_images",
        default=True,
        help="IsolatedHostsFilter: no other images on isolated_hosts.",
    ),
    cfg.StrOpt(
        "aggregate_image_properties_isolation_namespace",
        help="AggregateImagePropertiesIsolation: only metadata keys that begin so, with the separator behind it.",
    ),
    cfg.StrOpt(
        "aggregate_image_properties_isolation_separator",
        default=".",
        help="AggregateImagePropertiesIsolation: what follows the namespace.",
    ),
]

WEIGHERS: list[cfg.Opt] = [
    multiplier("ram_weight_multiplier", 1.0, "Weight of free memory; negative stacks instead of spreads."),
    multiplier("cpu_weight_multiplier", 1.0, "Weight of free vCPUs."),
    multiplier("disk_weight_multiplier", 1.0, "Weight of free disk."),
    multiplier("io_ops_weight_multiplier", -1.0, "Weight of builds, moves and snapshots that go on."),
    multiplier("pci_weight_multiplier", 1.0, "Weight of having few PCI devices free.", min=0.0),
    multiplier("soft_affinity_weight_multiplier", 1.0, "Weight of members, for soft-affinity.", min=0.0),
    multiplier("soft_anti_affinity_weight_multiplier", 1.0, "Weight of no members, for soft-anti-affinity.", min=0.0),
    multiplier("build_failure_weight_multiplier", 1000000.0, "Weight of not having failed to build of late."),
    multiplier("cross_cell_move_weight_multiplier", 1000000.0, "Weight of the cell that a server is in."),
    multiplier("hypervisor_version_weight_multiplier", 1.0, "Weight of a new hypervisor."),
    multiplier("num_instances_weight_multiplier", 0.0, "Weight of the number of instances; negative spreads."),
    multiplier("image_props_weight_multiplier", 0.0, "Weight of instances with the same image properties."),
    cfg.ListOpt(
        "image_props_weight_setting",
        default=[],
        help="Image properties that count, with their ratios: `os_distro=2, hw_machine_type=0`. Empty: all alike.",
    ),
]

OPTS: list[cfg.Opt] = [*CHAIN, *FILTERS, *WEIGHERS]
