"""AggregateInstanceExtraSpecsFilter: the metadata of the host's aggregates must be as the flavor's extra specs say."""

from minova.objects.request_spec import RequestSpec
from minova.scheduler.filters import ClassFilter
from minova.scheduler.filters.extra_specs import compare
from minova.scheduler.hosts.aggregate_values import Aggregates, words

SCOPE = "aggregate_instance_extra_specs"


class AggregateInstanceExtraSpecsFilter(ClassFilter):
    """Looks at keys of its scope and at those without any."""

    of = "aggregates"

    def verdict(self, value: Aggregates, spec: RequestSpec) -> str | None:
        wanted = own_keys(spec.flavor.extra_specs)
        metadata = words(value) if wanted else {}
        for key, requirement in wanted:
            values = sorted(metadata.get(key, ()))
            if not any(compare(key, one, requirement) for one in values):
                return f"aggregate metadata {key} {', '.join(values) or 'absent'}, flavor needs {requirement!r}"
        return None


def own_keys(extra_specs: dict[str, str]) -> list[tuple[str, str]]:
    """(key without its scope, requirement)."""
    split = [(*key.partition(":"), value) for key, value in extra_specs.items()]
    return [(name or scope, value) for scope, colon, name, value in split if not colon or scope == SCOPE]
