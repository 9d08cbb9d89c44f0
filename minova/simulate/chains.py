"""The chains and weighers that a scenario can name."""

from collections.abc import Sequence

from minova import errors
from minova.scheduler.extensions import NOVA_ORDER

# `default` is Nova's own chain.
CHAINS = {
    "default": (
        "ComputeFilter",
        "ComputeCapabilitiesFilter",
        "ImagePropertiesFilter",
        "ServerGroupAntiAffinityFilter",
        "ServerGroupAffinityFilter",
    ),
    "classic": (
        "RetryFilter",
        "AvailabilityZoneFilter",
        "ComputeFilter",
        "ComputeCapabilitiesFilter",
        "ImagePropertiesFilter",
        "ServerGroupAntiAffinityFilter",
        "ServerGroupAffinityFilter",
        "AggregateInstanceExtraSpecsFilter",
        "SameHostFilter",
        "DifferentHostFilter",
        "PciPassthroughFilter",
        "NUMATopologyFilter",
    ),
    "all": (
        "AggregateCoreFilter",
        "AggregateDiskFilter",
        "AggregateImagePropertiesIsolation",
        "AggregateInstanceExtraSpecsFilter",
        "AggregateIoOpsFilter",
        "AggregateMultiTenancyIsolation",
        "AggregateNumInstancesFilter",
        "AggregateRamFilter",
        "AggregateTypeAffinityFilter",
        "AllHostsFilter",
        "AvailabilityZoneFilter",
        "ComputeCapabilitiesFilter",
        "ComputeFilter",
        "CoreFilter",
        "DifferentHostFilter",
        "DiskFilter",
        "ImagePropertiesFilter",
        "IoOpsFilter",
        "IsolatedHostsFilter",
        "JsonFilter",
        "MetricsFilter",
        "NUMATopologyFilter",
        "NumInstancesFilter",
        "PciPassthroughFilter",
        "RamFilter",
        "RetryFilter",
        "SameHostFilter",
        "ServerGroupAffinityFilter",
        "ServerGroupAntiAffinityFilter",
        "SimpleCIDRAffinityFilter",
    ),
}
NOVA_FILTERS = "nova.scheduler.filters."
NOVA_WEIGHTS = "nova.scheduler.weights."
NOVA_ALL = f"{NOVA_WEIGHTS}all_weighers"


def chain(filters: Sequence[str] | str) -> list[str]:
    """Returns the filters that a scenario names. Raises BadRequest if there is no chain of that name."""
    if not isinstance(filters, str):
        return [_own(NOVA_FILTERS, name) for name in filters]
    if filters not in CHAINS:
        raise errors.BadRequest(f"filters: expected a list or one of {', '.join(sorted(CHAINS))}, got {filters!r}")
    return list(CHAINS[filters])


def weighers(name: str) -> list[str]:
    """Converts Nova's dotted paths to the names of minova's weighers."""
    if name in ("all", NOVA_ALL):
        return [*NOVA_ORDER]
    return [_own(NOVA_WEIGHTS, name)]


def _own(package: str, name: str) -> str:
    return name.rpartition(".")[2] if name.startswith(package) else name
