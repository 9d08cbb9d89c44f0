"""What pinned CPUs ask of Placement: PCPU, or VCPU of hosts that offer no PCPU. Pure.

A compute without `cpu_dedicated_set` publishes VCPU alone: with Nova's default the fallback finds it, and
NUMATopologyFilter sees whether it can pin.
"""

import msgspec
import os_traits

from minova.objects.numa import InstanceNUMATopology
from minova.objects.request_spec import PlacementFilter, RequestSpec

_HYPERTHREADING = {"require": "required_traits", "isolate": "forbidden_traits"}


def pinned(
    common: PlacementFilter, spec: RequestSpec, *, fall_back: bool
) -> tuple[PlacementFilter, PlacementFilter | None]:
    """(first choice, second choice or None) of a request that asks for `common` apart from its pinned CPUs."""
    topology = spec.numa_topology
    dedicated = _dedicated(topology) if topology is not None else 0
    if topology is None or not dedicated:
        return common, None
    shared = spec.flavor.vcpus - dedicated
    own = 1 if topology.emulator_threads_policy == "isolate" else 0
    asked = {"PCPU": dedicated + own, **({"VCPU": shared} if shared else {})}
    others = {name: amount for name, amount in (common.resources or {}).items() if name not in ("VCPU", "PCPU")}
    first = msgspec.structs.replace(common, resources={**asked, **others}, **_thread_trait(common, topology))
    # Nova asks again for instances whose CPUs are all pinned; a host that has both kinds says so by its PCPU.
    return first, common if fall_back and not shared else None


def _dedicated(topology: InstanceNUMATopology) -> int:
    return sum(len(cell.pcpuset) for cell in topology.cells)


def _thread_trait(common: PlacementFilter, topology: InstanceNUMATopology) -> dict[str, tuple[str, ...]]:
    policies = {cell.cpu_thread_policy for cell in topology.cells} & _HYPERTHREADING.keys()
    fields = [_HYPERTHREADING[policy] for policy in policies if policy is not None]
    return {field: (*getattr(common, field), os_traits.HW_CPU_HYPERTHREADING) for field in fields}
