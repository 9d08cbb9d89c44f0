"""What pinned CPUs request from Placement: PCPU, or VCPU on hosts that offer no PCPU. Pure.

A compute without `cpu_dedicated_set` publishes only VCPU. With Nova's default the fallback query finds it, and
NUMATopologyFilter checks whether it can pin.
"""

from typing import NamedTuple

import msgspec
import os_traits

from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.requests.request_spec import PlacementFilter, RequestSpec
from minova.objects.requests.resource_request import dedicated_cpus, resource_alternatives

_HYPERTHREADING = {"require": "required_traits", "isolate": "forbidden_traits"}


class Choices(NamedTuple):
    """`second`: the query for hosts that do not meet `first`."""

    first: PlacementFilter
    second: PlacementFilter | None = None


def with_resources(common: PlacementFilter, spec: RequestSpec, *, fall_back: bool) -> Choices:
    """`common`: the request's query without its resources."""
    topology = spec.numa_topology
    alternatives = resource_alternatives(spec.flavor, topology)
    first = msgspec.structs.replace(common, resources=alternatives[0])
    if topology is None or not dedicated_cpus(topology):
        return Choices(first)
    # Nova queries again only for instances whose CPUs are all pinned. A host that has both kinds publishes PCPU.
    second = msgspec.structs.replace(common, resources=alternatives[-1])
    all_pinned = not any(cell.cpuset for cell in topology.cells)
    first = msgspec.structs.replace(first, **_thread_trait(common, topology))
    return Choices(first, second if fall_back and all_pinned else None)


def _thread_trait(common: PlacementFilter, topology: InstanceNUMATopology) -> dict[str, tuple[str, ...]]:
    policies = {cell.cpu_thread_policy for cell in topology.cells} & _HYPERTHREADING.keys()
    fields = [_HYPERTHREADING[policy] for policy in policies if policy is not None]
    return {field: (*getattr(common, field), os_traits.HW_CPU_HYPERTHREADING) for field in fields}
