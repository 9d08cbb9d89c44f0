"""The chain and the configuration."""

import json
import random
from collections.abc import Sequence
from typing import Any

from tests.conformance.scenarios.words import (
    IMAGES,
    METRICS,
    MULTIPLIERS,
    NUMA_POLICIES,
    ZONES,
    chance,
    picked,
    some,
)

FILTERS = (
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
)
WEIGHERS = (
    "affinity.ServerGroupSoftAffinityWeigher",
    "affinity.ServerGroupSoftAntiAffinityWeigher",
    "compute.BuildFailureWeigher",
    "cpu.CPUWeigher",
    "cross_cell.CrossCellWeigher",
    "disk.DiskWeigher",
    "hypervisor_version.HypervisorVersionWeigher",
    "image_props.ImagePropertiesWeigher",
    "io_ops.IoOpsWeigher",
    "metrics.MetricsWeigher",
    "num_instances.NumInstancesWeigher",
    "pci.PCIWeigher",
    "ram.RAMWeigher",
)
FACTORS = (0.0, 1.0, 0.5, -1.0, 2.0, -4.0, 10.0, 0.25, 3.75, 1e6)
OPTIONS: dict[str, Sequence[Any]] = {
    **{f"filter_scheduler.{name}_weight_multiplier": FACTORS for name in MULTIPLIERS},
    "filter_scheduler.soft_affinity_weight_multiplier": (0.0, 0.25, 2.0, 10.0),
    "filter_scheduler.pci_weight_multiplier": (0.0, 0.25, 2.0, 10.0),
    "filter_scheduler.soft_anti_affinity_weight_multiplier": (0.0, 0.5, 4.0),
    "metrics.weight_multiplier": FACTORS,
    "metrics.required": (True, False),
    "metrics.weight_of_unavailable": (-10000.0, -5.0, 0.0, 3.5),
    "default_availability_zone": ZONES,
    "service_down_time": (60, 120, 30),
    "compute.packing_host_numa_cells_allocation_strategy": (True, False),
    "filter_scheduler.max_io_ops_per_host": (0, 1, 3, 8, 10),
    "filter_scheduler.max_instances_per_host": (1, 2, 4, 8, 50),
    "filter_scheduler.restrict_isolated_hosts_to_isolated_images": (True, False),
    "filter_scheduler.image_properties_default_architecture": ("x86_64", "aarch64"),
    "filter_scheduler.aggregate_image_properties_isolation_namespace": ("hw", "xx", "os", ""),
    "filter_scheduler.aggregate_image_properties_isolation_separator": ("_", ".", ""),
    "filter_scheduler.pci_in_placement": (False, False, False, True),
}
IMAGE_RATIOS = (
    "os_distro=-1",
    "os_type=1.5",
    "os_type=x",
    "hw_architecture=2",
    "img_hv_type=4",
    "hw_disk_bus=0",
    "nonsense",
)
METRIC_RATIOS = (
    *(f"{name}={ratio}" for name, ratio in zip(METRICS, (0.01, -2, 1.0, 1, 0, 3), strict=True)),
    "x=one",
    "=3",
    "junk",
)
ALIASES: Sequence[dict[str, str]] = (
    {"vendor_id": "8086", "product_id": "154c", "name": "nic", "device_type": "type-VF"},
    {"vendor_id": "8086", "product_id": "1572", "name": "acc", "device_type": "type-PCI"},
    {"vendor_id": "15b3", "product_id": "1018", "name": "pf", "device_type": "type-PF"},
    {"vendor_id": "10de", "product_id": "1eb8", "name": "any"},
    {"vendor_id": "15b3", "product_id": "101e", "name": "mig", "device_type": "type-VF", "live_migratable": "true"},
    {"vendor_id": "8086", "product_id": "154c", "name": "nomig", "device_type": "type-VF", "live_migratable": "no"},
    {"vendor_id": "8086", "product_id": "1572", "name": "two", "device_type": "type-PCI"},
    {"vendor_id": "10de", "product_id": "1eb8", "name": "two", "device_type": "type-PCI"},
    *(
        {
            "vendor_id": "8086",
            "product_id": "1572",
            "name": f"acc-{policy}",
            "device_type": "type-PCI",
            "numa_policy": policy,
        }
        for policy in NUMA_POLICIES
    ),
)
WRONG_ALIASES = (
    {"vendor_id": "8086", "product_id": "1572", "name": "dpa", "device_type": "vdpa"},
    {"vendor_id": "8086", "product_id": "1572", "name": "acc", "device_type": "type-VF"},
    {"vendor_id": "8086", "product_id": "1572", "name": "acc", "numa_policy": "required", "device_type": "type-PCI"},
    {"vendor_id": "8086", "name": "half"},
    {"vendor_id": "80866", "product_id": "1572", "name": "long"},
    {"vendor_id": "8086", "product_id": "1572", "name": "k", "colour": "red"},
    {"vendor_id": "8086", "product_id": "1572", "name": "k", "device_type": "type-XX"},
    {"vendor_id": "8086", "product_id": "1572"},
)


def chain(rng: random.Random) -> str | list[str]:
    kind = rng.random()
    if kind < 0.3:
        return rng.choice(("default", "classic", "all"))
    filter_names = rng.sample(FILTERS, rng.choice((1, 3, 6, 10, 15)))
    return [*filter_names, filter_names[0]] if chance(rng, 0.03) else filter_names


def options(rng: random.Random, hosts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    option_values = picked(rng, OPTIONS, 0.15)
    if chance(rng, 0.5):
        option_values["filter_scheduler.isolated_hosts"] = some(rng, [host["host"] for host in hosts]) + ["nowhere"]
    if chance(rng, 0.5):
        option_values["filter_scheduler.isolated_images"] = some(rng, IMAGES)
    if chance(rng, 0.4):
        if chance(rng, 0.5):
            option_values["filter_scheduler.image_props_weight_setting"] = some(rng, IMAGE_RATIOS, 4)
        option_values.setdefault("filter_scheduler.image_props_weight_multiplier", rng.choice(FACTORS))
    if chance(rng, 0.4):
        option_values["metrics.weight_setting"] = some(rng, METRIC_RATIOS, 4)
    if chance(rng, 0.25):
        names = rng.sample(WEIGHERS, rng.randint(1, len(WEIGHERS)))
        option_values["filter_scheduler.weight_classes"] = [f"nova.scheduler.weights.{name}" for name in names]
    if chance(rng, 0.05):
        option_values["filter_scheduler.ram_weight_multiplier"] = rng.choice(("2.5", "-1", 3))
        option_values["filter_scheduler.max_io_ops_per_host"] = "4"
    aliases = [*ALIASES]
    rng.shuffle(aliases)
    if chance(rng, 0.04):
        aliases.append(rng.choice(WRONG_ALIASES))
    option_values["pci.alias"] = [json.dumps(alias) for alias in aliases if chance(rng, 0.95)]
    return option_values
