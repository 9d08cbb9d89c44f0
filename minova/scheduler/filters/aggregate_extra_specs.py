"""AggregateInstanceExtraSpecsFilter: the metadata of the host's aggregates must match the flavor's extra specs."""

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters import ClassFilter
from minova.scheduler.filters.extra_specs import compare
from minova.scheduler.hosts.aggregate_values import Aggregates, words

SCOPE = "aggregate_instance_extra_specs"


class AggregateInstanceExtraSpecsFilter(ClassFilter):
    """Checks keys of its scope and keys without a scope."""

    of = "aggregates"

    def verdict(self, value: Aggregates, spec: RequestSpec) -> str | None:
        requirements = own_keys(spec.flavor.extra_specs)
        metadata = words(value) if requirements else {}
        for key, requirement in requirements:
            values = sorted(metadata.get(key, ()))
            if not any(compare(key, aggregate_value, requirement) for aggregate_value in values):
                return f"aggregate metadata {key} {', '.join(values) or 'absent'}, flavor needs {requirement!r}"
        return None


def own_keys(extra_specs: dict[str, str]) -> list[tuple[str, str]]:
    """Returns (key without its scope, requirement) of each key that the filter checks."""
    split = [(*key.partition(":"), value) for key, value in extra_specs.items()]
    return [(name or scope, value) for scope, colon, name, value in split if not colon or scope == SCOPE]
