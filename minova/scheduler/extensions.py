"""Finds filters, weighers and drivers: the built-in ones by name, others by the names of their entry points or by the dotted paths
of their classes.

Nova's dotted paths are mapped to minova's classes of the same name, so that a nova.conf can be reused.
"""

import importlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any

from minova import errors
from minova.scheduler import built_in
from minova.scheduler.filters import Filter, PerHostFilter
from minova.scheduler.weights import PerHostWeigher, Weigher

LOG = logging.getLogger(__name__)

FILTERS = "minova.scheduler.filters"
WEIGHERS = "minova.scheduler.weights"
DRIVERS = "minova.scheduler.drivers"
_BUILT_IN: Mapping[str, Mapping[str, Any]] = {FILTERS: built_in.FILTERS, WEIGHERS: built_in.WEIGHERS}

NOVA = "nova.scheduler."
# Option values that mean all filters or all weighers.
ALL = ("all", "nova.scheduler.filters.all_filters", "nova.scheduler.weights.all_weighers")
# The order in which Nova sums all its weighers: in floating point the order decides whether sums are equal. Other
# weighers follow by name.
NOVA_ORDER = (
    "CrossCellWeigher",
    "NumInstancesWeigher",
    "MetricsWeigher",
    "CPUWeigher",
    "BuildFailureWeigher",
    "ServerGroupSoftAffinityWeigher",
    "ServerGroupSoftAntiAffinityWeigher",
    "RAMWeigher",
    "DiskWeigher",
    "PCIWeigher",
    "ImagePropertiesWeigher",
    "IoOpsWeigher",
    "HypervisorVersionWeigher",
)


def load_filters(conf: Any) -> list[Filter]:
    """Returns the filters of `[filter_scheduler] enabled_filters`, in that order. Raises InvalidConfiguration, which
    names option and value.
    """
    classes = available_filters(conf.filter_scheduler.available_filters)
    filters = []
    for name in conf.filter_scheduler.enabled_filters:
        filter_class = _class_named(classes, name, "[filter_scheduler] enabled_filters")
        filters.append(
            filter_class(conf)
            if issubclass(filter_class, Filter)
            else PerHostFilter(_written_for_nova(filter_class, conf))
        )
    return filters


def available_filters(names: Iterable[str]) -> Mapping[str, Any]:
    """Returns the filters by the names that `enabled_filters` may use: built-in ones, entry points, and names of classes."""
    classes = _known_classes(FILTERS)
    filters: dict[str, Any] = {}
    for name in names:
        if name in ALL:
            filters.update(classes)
        else:
            filter_class = _class_named(classes, name, "[filter_scheduler] available_filters")
            filters[filter_class.__name__] = filter_class
    return filters


def load_weighers(conf: Any) -> list[Weigher]:
    """Returns the weighers of `[filter_scheduler] weight_classes`; `all` means the built-in ones and every entry point, in Nova's order."""
    classes = _known_classes(WEIGHERS)
    names: list[str] = []
    for name in conf.filter_scheduler.weight_classes:
        names += sorted(classes, key=_order) if name in ALL else [name]
    weigher_classes = [_class_named(classes, name, "[filter_scheduler] weight_classes") for name in names]
    return [
        weigher(conf) if issubclass(weigher, Weigher) else PerHostWeigher(_written_for_nova(weigher, conf))
        for weigher in weigher_classes
    ]


def _written_for_nova(nova_class: Any, conf: Any) -> Any:
    """Nova creates such objects without arguments. There is no global configuration here, so they get the
    configuration.
    """
    lifted = nova_class()
    lifted.conf = conf
    return lifted


def find(group: str, name: str, option: str) -> Any:
    """Returns the class of that name. Raises InvalidConfiguration, which lists the known names, if there is none."""
    return _class_named(_known_classes(group), name, option)


def _order(name: str) -> tuple[int, str]:
    return NOVA_ORDER.index(name) if name in NOVA_ORDER else len(NOVA_ORDER), name


def _class_named(classes: Mapping[str, Any], name: str, option: str) -> Any:
    short = name.rpartition(".")[2] if name.startswith(NOVA) else name
    if short in classes:
        return classes[short]
    if "." in short:
        return _by_path(short, option)
    raise errors.InvalidConfiguration(f"{option}: unknown name {name!r}; known are {', '.join(sorted(classes))}.")


def _known_classes(group: str) -> dict[str, Any]:
    return {**dict(_of_other_packages(group)), **_BUILT_IN.get(group, {})}


def _of_other_packages(group: str) -> Iterator[tuple[str, Any]]:
    for entry in entry_points(group=group):
        try:
            yield entry.name, entry.load()
        except Exception as error:  # noqa: BLE001  - of a package that perhaps no option names
            LOG.error("%s of the group %s cannot be loaded: %s: %s", entry.name, group, type(error).__name__, error)


def _by_path(path: str, option: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        extension = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise errors.InvalidConfiguration(f"{option}: {path!r} cannot be loaded: {error}") from error
    if not isinstance(extension, type):
        raise errors.InvalidConfiguration(f"{option}: {path!r} is no class.")
    return extension
