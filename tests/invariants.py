"""What must be true of a cloud at rest, in its tables and on its hypervisors. Used by the seeded faults and by the soak."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from minova.db.models import (
    Allocation,
    ComputeNode,
    Image,
    Instance,
    InstanceFault,
    Inventory,
    Migration,
    RequestSpecRow,
    ResourceProvider,
    Task,
)
from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.numa import InstanceNUMATopology

Amounts = dict[str, int]
HOLDING = {"active", "stopped", "paused", "suspended", "rescued", "soft-delete", "shelved", "resized"}
SETTLED = HOLDING | {"shelved_offloaded"}
HELD = ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB")


def violations(session: Session, domains: Mapping[str, Iterable[str]], reserved_mb: int = 512) -> list[str]:
    """What is not as it must be. `domains`: the running ones of each host, by the instances' UUIDs. `reserved_mb`: the
    memory that each host keeps for itself.
    """
    instances = list(session.scalars(select(Instance).where(Instance.deleted_at.is_(None))))
    active = [instance for instance in instances if instance.vm_state == "active"]
    # As in Nova, such a guest that is started or stopped behind the cloud's back is left so. A resized one may have been stopped before.
    held = [instance for instance in instances if instance.vm_state in {"paused", "suspended", "rescued", "resized"}]
    # Guests keep what they hold whether they run or not, and where an action has failed. A failed build has no host.
    failed = [instance for instance in instances if instance.vm_state == "error" and instance.host is not None]
    holding = [instance for instance in instances if instance.vm_state in HOLDING] + failed
    states = _of_states(session, instances)
    states += [f"task left for {uuid}" for uuid in session.scalars(select(Task.instance_uuid))]
    states += _of_shelved(session, instances)
    moves = _unconfirmed(session, {i.uuid for i in instances if i.vm_state == "resized"})
    states += _of_allocations(session, holding, moves)
    states += _of_inventories(session)
    states += _of_nodes(session, holding, moves, reserved_mb)
    states += _of_pins(holding)
    states += _of_domains(active, held, domains)
    return states


def _of_states(session: Session, instances: list[Instance]) -> list[str]:
    violation_list = [f"{i.uuid} in transit: {i.vm_state}/{i.task_state}" for i in instances if i.task_state]
    violation_list += [f"{i.uuid} is {i.vm_state}" for i in instances if i.vm_state not in SETTLED | {"error"}]
    explained = set(session.scalars(select(InstanceFault.instance_uuid).where(InstanceFault.message != "")))
    violation_list += [
        f"{i.uuid} is in error without a reason" for i in instances if i.vm_state == "error" and i.uuid not in explained
    ]
    return violation_list


def _of_shelved(session: Session, instances: list[Instance]) -> list[str]:
    """A shelved server has an image, and no other image of one is left. Nor is a request that it was unshelved by."""
    images = {image.id: image.name for image in session.scalars(select(Image))}
    named = {i.shelved_image_id: i.vm_state for i in instances if i.shelved_image_id is not None}
    violation_list = [
        f"image {image} of a server that is {named[image]} is lost" for image in named if image not in images
    ]
    violation_list += [
        f"image {image} is of no shelved server"
        for image, name in images.items()
        if (name or "").endswith("-shelved") and image not in named
    ]
    shelved = [i for i in instances if i.vm_state in {"shelved", "shelved_offloaded"}]
    violation_list += [f"{i.uuid} is {i.vm_state} without an image" for i in shelved if i.shelved_image_id is None]
    violation_list += [
        f"{i.uuid} is offloaded, and on {i.host}"
        for i in shelved
        if i.vm_state == "shelved_offloaded" and i.host is not None
    ]
    of_instances = set(session.scalars(select(Instance.reservation_id)))
    requests = set(session.scalars(select(RequestSpecRow.reservation_id)))
    return violation_list + [
        f"request {request_uuid} has no server" for request_uuid in sorted(requests - of_instances)
    ]


def takes(flavor: Flavor) -> Amounts:
    """What Placement holds for an instance of this flavor, without devices and overrides."""
    pinned = flavor.extra_specs.get("hw:cpu_policy") == "dedicated"
    amounts = {
        "PCPU" if pinned else "VCPU": flavor.vcpus,
        "MEMORY_MB": flavor.memory_mb,
        "DISK_GB": flavor.disk_gb,
    }
    return {name: amount for name, amount in amounts.items() if amount}


def _unconfirmed(session: Session, resized: set[str]) -> list[Migration]:
    """The moves that their owners have neither confirmed nor reverted: what the server had is held at its source."""
    finished = session.scalars(select(Migration).where(Migration.status == "finished"))
    return [move for move in finished if move.instance_uuid in resized]


def _of_allocations(session: Session, holding: list[Instance], moves: list[Migration]) -> list[str]:
    rows = session.execute(
        select(Allocation.consumer_uuid, ResourceProvider.name, Allocation.resource_class, Allocation.used).join(
            ResourceProvider, ResourceProvider.id == Allocation.provider_id
        )
    )
    allocated = {(uuid, name, kind, used) for uuid, name, kind, used in rows}
    expected = {(i.uuid, i.node or "", kind, used) for i in holding for kind, used in takes(i.flavor).items()}
    expected |= {
        (move.uuid, move.source_node, kind, used)
        for move in moves
        for kind, used in takes(move.value.old_flavor).items()
    }
    violation_list = [f"allocation without instance: {allocation}" for allocation in sorted(allocated - expected)]
    return violation_list + [
        f"instance without allocation: {allocation}" for allocation in sorted(expected - allocated)
    ]


def _of_inventories(session: Session) -> list[str]:
    sums = {
        (provider, kind): used
        for provider, kind, used in session.execute(
            select(Allocation.provider_id, Allocation.resource_class, func.sum(Allocation.used)).group_by(
                Allocation.provider_id, Allocation.resource_class
            )
        )
    }
    violation_list = []
    for inventory in session.scalars(select(Inventory)):
        held = sums.get((inventory.provider_id, inventory.resource_class), 0)
        name = f"{inventory.provider_id} {inventory.resource_class}"
        if inventory.used != held:
            violation_list.append(f"inventory {name}: {inventory.used} != {held}")
        if inventory.used > inventory.capacity:
            violation_list.append(f"overcommit on {name}")
    return violation_list


def _of_nodes(session: Session, holding: list[Instance], moves: list[Migration], reserved_mb: int) -> list[str]:
    """The figures of the nodes are the sums of their instances and of what moves hold. A node of an instance must exist."""
    held: dict[tuple[str, str], list[Instance]] = defaultdict(list)
    for instance in holding:
        held[instance.host or "", instance.node or ""].append(instance)
    violation_list = []
    for node in session.scalars(select(ComputeNode)):
        here = (node.host, node.hypervisor_hostname)
        mine = held.pop(here, [])
        left = [move.value for move in moves if (move.source_compute, move.source_node) == here]
        flavors = [i.flavor for i in mine] + [move.old_flavor for move in left]
        expected = {
            "vcpus_used": sum(flavor.vcpus for flavor in flavors),
            "memory_mb_used": reserved_mb + sum(flavor.memory_mb for flavor in flavors),
            "local_gb_used": sum(flavor.disk_gb for flavor in flavors),
            "running_vms": len(mine),
            "current_workload": 0,
        }
        for name, amount in expected.items():
            if getattr(node, name) != amount:
                violation_list.append(f"{node.host}: {name} {getattr(node, name)} != {amount}")
        pins = {cpu for i in mine for cpu in _pins(i)} | {cpu for move in left for cpu in _cpus(move.old_numa_topology)}
        pinned = _pinned_of(node.numa_topology)
        if pinned != pins:
            violation_list.append(f"{node.host}: pinned_cpus {sorted(pinned)} != {sorted(pins)}")
    for (host, name), lost in held.items():
        violation_list.append(f"no node {name} of host {host}, where {len(lost)} instances are")
    return violation_list


def _pinned_of(topology: Any) -> set[int]:
    cells = (topology or {}).get("cells", ())
    return {cpu for cell in cells for cpu in cell.get("pinned_cpus", ())}


def _pins(instance: Instance) -> list[int]:
    return _cpus(instance.numa_topology)


def _cpus(topology: InstanceNUMATopology | None) -> list[int]:
    """The host's CPUs to which these cells are pinned."""
    return [cpu for cell in (topology.cells if topology else ()) for _, cpu in cell.cpu_pinning]


def _of_pins(holding: list[Instance]) -> list[str]:
    taken: Counter[tuple[str | None, int]] = Counter((i.host, cpu) for i in holding for cpu in _pins(i))
    violation_list = [
        f"CPU {cpu} of {host} belongs to {count} guests" for (host, cpu), count in taken.items() if count > 1
    ]
    wanting = [i.uuid for i in holding if "PCPU" in takes(i.flavor) and len(_pins(i)) != i.flavor.vcpus]
    return violation_list + [f"{uuid} runs without its pinned CPUs" for uuid in wanting]


def _of_domains(active: list[Instance], held: list[Instance], domains: Mapping[str, Iterable[str]]) -> list[str]:
    violation_list = []
    for host in sorted({*domains, *(i.host or "" for i in active)}):
        expected = {i.uuid for i in active if i.host == host}
        running = set(domains.get(host, ())) - {i.uuid for i in held}
        if running != expected:
            violation_list.append(
                f"{host}: domains without instance {sorted(running - expected)}, instances without domain"
                f" {sorted(expected - running)}"
            )
    return violation_list
