"""What an audit finds: the node's usage from scratch, and what is amiss. Pure.

driver's view + what the database knows ----> node row, and what to do:
                                              destroy strays, begin lost builds, report power states
"""

from collections.abc import Callable, Iterable

import msgspec

from minova.compute import usage
from minova.compute.inventories import Ratios, Reserved, inventories_of, ratios_for
from minova.compute.usage import Held, Overhead
from minova.objects.build import AuditInputs, BuildMessage
from minova.objects.compute_node import ComputeNode, DomainView, HypervisorView, Inventory
from minova.objects.flavor import Flavor
from minova.objects.instance import Instance
from minova.objects.states import RESOURCE_FREE, PowerState


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says of every node of a host."""

    host: str
    host_ip: str | None = None
    reserved: Reserved = Reserved()
    ratios: Ratios = Ratios()


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """An audit's result. `orphans` are domains that no row knows, with their memory in MB; they are left alone.

    `strays` are (uuid, attempt) of domains to destroy; they count as in use until they are gone.
    `power_states` are the rows' states of instances of which the hypervisor says otherwise.
    """

    node: ComputeNode
    inventories: tuple[Inventory, ...]
    held: dict[str, Held]
    orphans: dict[str, int]
    strays: tuple[DomainView, ...]
    attempts: tuple[BuildMessage, ...]
    power_states: dict[str, PowerState]


def fold(
    view: HypervisorView,
    inputs: AuditInputs,
    settings: NodeSettings,
    *,
    new_uuid: str,
    overhead: Callable[[Flavor], Overhead],
    failed_builds: int = 0,
) -> Finding:
    """`new_uuid` is the node's if it has no row yet; `overhead` answers for a flavor what the hypervisor adds."""
    held = {
        instance.uuid: Held(instance=instance, usage=usage.usage_of(instance.flavor, overhead(instance.flavor)))
        for instance in inputs.instances
        if holds_resources(instance, settings.host, view.hypervisor_hostname)
    }
    expected = held.keys() | {message.instance.uuid for message in inputs.attempts}
    orphans = {domain.uuid: domain.memory_mb for domain in view.domains if domain.uuid not in expected}
    node = bare_node(view, inputs.node, settings, new_uuid, failed_builds)
    for one in held.values():
        node = usage.with_added(node, one)
    node = usage.with_memory(node, sum(orphans.values()))
    return Finding(
        node=node,
        inventories=inventories_of(view, node, settings.reserved),
        held=held,
        orphans=orphans,
        strays=tuple(domain for domain in view.domains if domain.uuid in inputs.strays),
        attempts=inputs.attempts,
        power_states=differing((one.instance for one in held.values()), view.domains),
    )


def holds_resources(instance: Instance, host: str, node: str) -> bool:
    """Whether the instance counts on this node."""
    return (
        not instance.deleted
        and instance.vm_state not in RESOURCE_FREE
        and instance.host == host
        and instance.node == node
    )


def differing(instances: Iterable[Instance], domains: Iterable[DomainView]) -> dict[str, PowerState]:
    """The rows' states of idle instances whose domain is in another, or is missing."""
    seen = {domain.uuid: domain.power_state for domain in domains}
    return {
        instance.uuid: instance.power_state
        for instance in instances
        if instance.task_state is None and seen.get(instance.uuid, PowerState.NOSTATE) != instance.power_state
    }


def bare_node(
    view: HypervisorView, row: ComputeNode | None, settings: NodeSettings, new_uuid: str, failed_builds: int
) -> ComputeNode:
    """The node with what the host keeps for itself, and no instance yet. What only the row knows is kept."""
    reserved = settings.reserved
    cpu, ram, disk = ratios_for(settings.ratios, row)
    return ComputeNode(
        uuid=row.uuid if row is not None else new_uuid,
        id=row.id if row is not None else 0,
        generation=row.generation if row is not None else 0,
        metrics=row.metrics if row is not None else (),
        host=settings.host,
        host_ip=settings.host_ip,
        hypervisor_hostname=view.hypervisor_hostname,
        vcpus=view.vcpus,
        memory_mb=view.memory_mb,
        local_gb=view.local_gb,
        vcpus_used=reserved.vcpus,
        memory_mb_used=reserved.memory_mb,
        local_gb_used=reserved.disk_gb,
        free_ram_mb=view.memory_mb - reserved.memory_mb,
        free_disk_gb=view.local_gb - reserved.disk_gb,
        disk_available_least=view.disk_available_least,
        hypervisor_type=view.hypervisor_type,
        hypervisor_version=view.hypervisor_version,
        cpu_info=view.cpu_info,
        supported_instances=view.supported_instances,
        numa_topology=view.numa_topology,
        cpu_allocation_ratio=cpu,
        ram_allocation_ratio=ram,
        disk_allocation_ratio=disk,
        stats=usage.empty_stats(failed_builds),
    )
