"""The resources that instances take from a node. Pure: the audit and the bookkeeping between audits use the same
steps.
"""

from collections.abc import Iterable

import msgspec

from minova.hardware import numa_usage
from minova.objects.catalogue.flavor import Flavor, Overhead
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.hosts.numa import InstanceNUMATopology, NUMATopology
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import TaskState, VmState

# Counters that stay in the stats of an idle node, as 0.
ALWAYS = ("failed_builds", "io_workload", "num_instances")
# Tasks with heavy I/O. Together with builds they make up Nova's io_workload.
HEAVY = frozenset(
    {
        TaskState.RESIZE_PREP,
        TaskState.RESIZE_MIGRATING,
        TaskState.REBUILDING,
        TaskState.IMAGE_SNAPSHOT,
        TaskState.IMAGE_BACKUP,
        TaskState.UNSHELVING,
    }
)


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that one instance takes. `numa` is its topology as fitted to the host's cells; None without
    cells.
    """

    memory_mb: int
    disk_gb: int
    vcpus: int
    numa: InstanceNUMATopology | None = None


class TrackedInstance(msgspec.Struct, frozen=True, kw_only=True):
    """An instance that holds resources on this node, and how much."""

    instance: Instance
    usage: Usage


def usage_of(flavor: Flavor, overhead: Overhead, numa: InstanceNUMATopology | None = None) -> Usage:
    """Returns the resources of the flavor plus the overhead of the hypervisor."""
    return Usage(
        memory_mb=flavor.memory_mb + overhead.memory_mb,
        disk_gb=flavor.disk_gb + overhead.disk_gb,
        vcpus=flavor.vcpus + overhead.vcpus,
        numa=numa,
    )


def beyond(used: Usage, other: Usage) -> Usage:
    """Returns what `used` takes more than `other`."""
    return msgspec.structs.replace(
        used,
        memory_mb=max(0, used.memory_mb - other.memory_mb),
        disk_gb=max(0, used.disk_gb - other.disk_gb),
        vcpus=max(0, used.vcpus - other.vcpus),
    )


def with_added(node: ComputeNode, held: TrackedInstance) -> ComputeNode:
    """Returns the node after an instance was added."""
    return _changed(node, held, +1)


def with_removed(node: ComputeNode, held: TrackedInstance) -> ComputeNode:
    """Returns the node after an instance was removed: exactly as it was before the instance was added."""
    return _changed(node, held, -1)


def with_failed_builds(node: ComputeNode, count: int) -> ComputeNode:
    """Returns the node with its number of builds failed in a row, which schedulers weigh."""
    return msgspec.structs.replace(node, stats={**node.stats, "failed_builds": str(count)})


def empty_stats(failed_builds: int) -> dict[str, str]:
    """Returns the stats of a node without instances."""
    return {**dict.fromkeys(ALWAYS, "0"), "failed_builds": str(failed_builds)}


def with_resources(node: ComputeNode, used: Usage, sign: int = +1) -> ComputeNode:
    """Returns the node with (`sign` 1) or without (-1) the resources that a move holds there. A move does not count in
    the statistics.
    """
    memory_mb_used = node.memory_mb_used + sign * used.memory_mb
    local_gb_used = node.local_gb_used + sign * used.disk_gb
    return msgspec.structs.replace(
        node,
        vcpus_used=node.vcpus_used + sign * used.vcpus,
        memory_mb_used=memory_mb_used,
        local_gb_used=local_gb_used,
        free_ram_mb=node.memory_mb - memory_mb_used,
        free_disk_gb=node.local_gb - local_gb_used,
        numa_topology=_cells(node.numa_topology, used.numa, sign),
    )


def _cells(host: NUMATopology | None, guest: InstanceNUMATopology | None, sign: int) -> NUMATopology | None:
    return host if host is None or guest is None else numa_usage.with_instance(host, guest, sign)


def _changed(node: ComputeNode, held: TrackedInstance, sign: int) -> ComputeNode:
    return msgspec.structs.replace(
        with_resources(node, held.usage, sign),
        running_vms=node.running_vms + sign,
        current_workload=node.current_workload + sign * (held.instance.task_state is not None),
        stats=_counted(node.stats, _keys_of(held.instance), sign),
    )


def _keys_of(instance: Instance) -> Iterable[str]:
    """Yields the counters in which an instance counts, by Nova's names; the counter of the architecture is our own."""
    properties = instance.image.properties if instance.image is not None else {}
    yield "num_instances"
    yield f"num_vm_{instance.vm_state}"
    yield f"num_task_{instance.task_state}"
    yield f"num_proj_{instance.project_id}"
    yield f"num_os_type_{properties.get('os_type')}"
    yield f"num_arch_{properties.get('hw_architecture') or properties.get('architecture')}"
    if instance.vm_state is VmState.BUILDING:
        yield "io_workload"
    if instance.task_state in HEAVY:
        yield "io_workload"


def _counted(stats: dict[str, str], keys: Iterable[str], sign: int) -> dict[str, str]:
    counted = dict(stats)
    for key in keys:
        count = int(counted.get(key, "0")) + sign
        counted[key] = str(count)
        if count == 0 and key not in ALWAYS:
            del counted[key]
    return counted
