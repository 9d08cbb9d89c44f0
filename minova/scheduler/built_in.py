"""The built-in filters and weighers. A new one is a line here; those of other packages are entry points."""

from collections.abc import Mapping

from minova.scheduler.filters import Filter
from minova.scheduler.filters.affinity import (
    DifferentHostFilter,
    SameHostFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
)
from minova.scheduler.filters.aggregate_extra_specs import AggregateInstanceExtraSpecsFilter
from minova.scheduler.filters.aggregate_isolation import (
    AggregateImagePropertiesIsolation,
    AggregateMultiTenancyIsolation,
    AggregateTypeAffinityFilter,
)
from minova.scheduler.filters.all_hosts import AllHostsFilter
from minova.scheduler.filters.availability_zone import AvailabilityZoneFilter
from minova.scheduler.filters.cidr import SimpleCIDRAffinityFilter
from minova.scheduler.filters.compute import ComputeFilter
from minova.scheduler.filters.compute_capabilities import ComputeCapabilitiesFilter
from minova.scheduler.filters.core import AggregateCoreFilter, CoreFilter
from minova.scheduler.filters.disk import AggregateDiskFilter, DiskFilter, LocalDiskFilter
from minova.scheduler.filters.image_properties import ImagePropertiesFilter
from minova.scheduler.filters.io_ops import AggregateIoOpsFilter, IoOpsFilter
from minova.scheduler.filters.isolated_hosts import IsolatedHostsFilter
from minova.scheduler.filters.json_query import JsonFilter
from minova.scheduler.filters.metrics import MetricsFilter
from minova.scheduler.filters.num_instances import AggregateNumInstancesFilter, NumInstancesFilter
from minova.scheduler.filters.numa_topology import NUMATopologyFilter
from minova.scheduler.filters.pci_passthrough import PciPassthroughFilter
from minova.scheduler.filters.ram import AggregateRamFilter, RamFilter
from minova.scheduler.filters.retry import RetryFilter
from minova.scheduler.filters.vgpu import VGPUFilter
from minova.scheduler.weights import Weigher
from minova.scheduler.weights.affinity import ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher
from minova.scheduler.weights.build_failure import BuildFailureWeigher
from minova.scheduler.weights.cpu import CPUWeigher
from minova.scheduler.weights.cross_cell import CrossCellWeigher
from minova.scheduler.weights.disk import DiskWeigher
from minova.scheduler.weights.hypervisor_version import HypervisorVersionWeigher
from minova.scheduler.weights.image_properties import ImagePropertiesWeigher
from minova.scheduler.weights.io_ops import IoOpsWeigher
from minova.scheduler.weights.metrics import MetricsWeigher
from minova.scheduler.weights.num_instances import NumInstancesWeigher
from minova.scheduler.weights.pci import PCIWeigher
from minova.scheduler.weights.ram import RAMWeigher

FILTERS: Mapping[str, type[Filter]] = {
    filter_class.__name__: filter_class
    for filter_class in (
        AggregateCoreFilter,
        AggregateDiskFilter,
        AggregateImagePropertiesIsolation,
        AggregateInstanceExtraSpecsFilter,
        AggregateIoOpsFilter,
        AggregateMultiTenancyIsolation,
        AggregateNumInstancesFilter,
        AggregateRamFilter,
        AggregateTypeAffinityFilter,
        AllHostsFilter,
        AvailabilityZoneFilter,
        ComputeCapabilitiesFilter,
        ComputeFilter,
        CoreFilter,
        DifferentHostFilter,
        DiskFilter,
        ImagePropertiesFilter,
        IoOpsFilter,
        IsolatedHostsFilter,
        JsonFilter,
        LocalDiskFilter,
        MetricsFilter,
        NUMATopologyFilter,
        NumInstancesFilter,
        PciPassthroughFilter,
        RamFilter,
        RetryFilter,
        SameHostFilter,
        ServerGroupAffinityFilter,
        ServerGroupAntiAffinityFilter,
        SimpleCIDRAffinityFilter,
        VGPUFilter,
    )
}

WEIGHERS: Mapping[str, type[Weigher]] = {
    weigher_class.__name__: weigher_class
    for weigher_class in (
        BuildFailureWeigher,
        CPUWeigher,
        CrossCellWeigher,
        DiskWeigher,
        HypervisorVersionWeigher,
        ImagePropertiesWeigher,
        IoOpsWeigher,
        MetricsWeigher,
        NumInstancesWeigher,
        PCIWeigher,
        RAMWeigher,
        ServerGroupSoftAffinityWeigher,
        ServerGroupSoftAntiAffinityWeigher,
    )
}
