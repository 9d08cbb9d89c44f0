"""ComputeCapabilitiesFilter: the capabilities that the host reports must match the flavor's extra specs."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters.extra_specs import comparable, compare
from minova.scheduler.filters.nova_names import OWN, SHARED, EquivalentHostsFilter, attribute, field_of
from minova.scheduler.hosts.state import HostState

SCOPE = "capabilities"
ADDRESS_BITS = "hw:maxphysaddr_bits"


class CapabilityRequirement(NamedTuple):
    """`path`: an attribute of Nova's HostState, followed by keys below it. `scoped`: the value must exist."""

    key: str
    path: list[str]
    scoped: bool
    requirement: str


class ComputeCapabilitiesFilter(EquivalentHostsFilter):
    """A key `capabilities:A:B` must exist and match. A key without scope must match only if the
    host has such a value.
    """

    def reads(self, spec: RequestSpec) -> Iterable[str] | None:
        flavor_needs = needs(spec.flavor.extra_specs)
        # A name that is no attribute may be a key of the stats.
        return [need.path[0] if need.path[0] in SHARED else "stats" for need in flavor_needs] or None

    def refusal_reason(self, host: HostState, spec: RequestSpec) -> str | None:
        stats = host.stats
        for need in needs(spec.flavor.extra_specs):
            first = need.path[0]
            if not need.scoped and first not in SHARED and first not in OWN and first not in stats:
                continue
            value = look_up(host, need.path)
            if value is None:
                return f"{need.key} unknown, flavor needs {need.requirement!r}"
            if not comparable(str(value), need.requirement):
                return f"{need.key} {value} is no number, flavor needs {need.requirement!r}"
            if not compare(need.key, str(value), need.requirement):
                return f"{need.key} {value}, flavor needs {need.requirement!r}"
        return None


def needs(extra_specs: dict[str, str]) -> list[CapabilityRequirement]:
    """Returns the requirements in their order. The width of addresses comes last, as in Nova."""
    requirements = []
    for key, requirement in extra_specs.items():
        scope, *path = key.split(":")
        if not path or scope == SCOPE:
            requirements.append(CapabilityRequirement(key, path or [scope], bool(path), requirement))
    bits = extra_specs.get(ADDRESS_BITS)
    if bits is not None:
        requirements.append(
            CapabilityRequirement(ADDRESS_BITS, ["cpu_info", "maxphysaddr", "bits"], True, f">= {bits}")
        )
    return requirements


def look_up(host: HostState, path: list[str]) -> Any:
    """If the first name is not an attribute, it is looked up in the stats."""
    value = attribute(host, path[0])
    if value is None:
        value = attribute(host, "stats").get(path[0])
    for name in path[1:]:
        value = None if value is None else field_of(value, name)
    return value
