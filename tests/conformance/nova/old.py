"""Filters that Nova has dropped, from the packages of older ones."""

import importlib.util
import pathlib

from nova.scheduler import filters

OLD = {
    "nova-20.6.1": {
        "retry_filter": ["RetryFilter"],
        "availability_zone_filter": ["AvailabilityZoneFilter"],
        "core_filter": ["AggregateCoreFilter"],
        "ram_filter": ["AggregateRamFilter"],
        "disk_filter": ["AggregateDiskFilter"],
    },
    "nova-19.3.2": {
        "core_filter": ["CoreFilter"],
        "ram_filter": ["RamFilter"],
        "disk_filter": ["DiskFilter"],
    },
}


def filter_classes(old):
    """By name: Nova 34's, and those it has dropped."""
    class_by_name = {filter_class.__name__: filter_class for filter_class in filters.all_filters()}
    for package, modules in OLD.items():
        for module, names in modules.items():
            path = pathlib.Path(old, package, "nova", "scheduler", "filters", f"{module}.py")
            spec = importlib.util.spec_from_file_location(f"{package}.{module}", path)
            loaded = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(loaded)
            for name in names:
                class_by_name[name] = getattr(loaded, name)
    return class_by_name
