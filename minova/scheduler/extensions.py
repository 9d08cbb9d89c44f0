"""Finds filters, weighers and drivers by the names of their entry points or by the dotted paths of their classes."""

import importlib
from typing import Any

from stevedore import ExtensionManager

from minova import errors
from minova.scheduler.filters import Filter, PerHostFilter
from minova.scheduler.weights import PerHostWeigher, Weigher

FILTERS = "minova.scheduler.filters"
WEIGHERS = "minova.scheduler.weights"
DRIVERS = "minova.scheduler.drivers"


def load_filters(conf: Any) -> list[Filter]:
    """Those of `[filter_scheduler] enabled_filters`, in that order. InvalidConfiguration names option and value."""
    found = []
    for name in conf.filter_scheduler.enabled_filters:
        made = find(FILTERS, name, "[filter_scheduler] enabled_filters")
        found.append(made(conf) if issubclass(made, Filter) else PerHostFilter(made()))
    return found


def load_weighers(conf: Any) -> list[Weigher]:
    """Those of `[filter_scheduler] weight_classes`; `all` stands for every entry point, by name."""
    names: list[str] = []
    for name in conf.filter_scheduler.weight_classes:
        names += sorted(_known(WEIGHERS)) if name == "all" else [name]
    made = [find(WEIGHERS, name, "[filter_scheduler] weight_classes") for name in dict.fromkeys(names)]
    return [weigher(conf) if issubclass(weigher, Weigher) else PerHostWeigher(weigher()) for weigher in made]


def find(group: str, name: str, option: str) -> Any:
    """The class of that name. InvalidConfiguration: there is none, and these there are."""
    if "." in name:
        return _by_path(name, option)
    known = _known(group)
    if name not in known:
        raise errors.InvalidConfiguration(f"{option}: unknown name {name!r}; known are {', '.join(sorted(known))}.")
    return known[name]


def _known(group: str) -> dict[str, Any]:
    found: Any = ExtensionManager(group)
    return {extension.name: extension.plugin for extension in found}


def _by_path(path: str, option: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise errors.InvalidConfiguration(f"{option}: {path!r} cannot be loaded: {error}") from error
    if not isinstance(found, type):
        raise errors.InvalidConfiguration(f"{option}: {path!r} is no class.")
    return found
