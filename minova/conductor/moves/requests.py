"""The scheduler's request for a move: the server's first request with its present image and its new size. The stored
request does not change.
"""

from collections import Counter
from collections.abc import Collection, Sequence

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.servers.present_needs import needs_now
from minova.db.servers import instances, request_specs
from minova.objects.catalogue.flavor import Flavor
from minova.objects.requests.request_spec import Destination, KeptResources, RequestSpec, Retry
from minova.objects.requests.resource_request import resource_alternatives
from minova.objects.servers.instance import Instance
from minova.placement.allocations import queries


def spec_of(
    session: Session,
    instance: Instance,
    flavor: Flavor,
    aliases: Sequence[str],
    *,
    host: str | None = None,
    forced: bool = False,
    without: Collection[str] = (),
    held_by: str | None = None,
) -> RequestSpec:
    """`host`: the only one that may be chosen. `forced`: without the filters' consent. `without`: hosts that may not be. As in Nova, a host that was forced when
    the server was created does not count. `held_by`: the consumer of what the server has now, if it may stay on its node.
    """
    stored = request_specs.load(session, [instance.reservation_id]).get(instance.reservation_id)
    if stored is None:
        raise errors.Conflict(f"The request of instance {instance.uuid} is gone, so it cannot be scheduled")
    first, needs = stored[0], needs_now(session, instance.uuid, flavor, instance.image, aliases)
    return msgspec.structs.replace(
        first,
        flavor=flavor,
        image=instance.image or first.image,
        instance_uuid=instance.uuid,
        num_instances=1,
        availability_zone=instances.pinned_zone(session, instance.uuid),
        ignore_hosts=tuple(sorted({*first.ignore_hosts, *without})),
        force_hosts=(host,) if forced and host is not None else (),
        force_nodes=(),
        retry=Retry(),
        requested_destination=None if host is None or forced else Destination(host=host),
        **needs,
        kept=None if held_by is None or needs["numa_topology"] else _kept_resources(session, instance, flavor, held_by),
    )


def _kept_resources(session: Session, instance: Instance, flavor: Flavor, held_by: str) -> KeptResources | None:
    """Returns None for guests with NUMA cells: see `Migration.counts_larger`."""
    if instance.numa_topology is not None:
        return None
    allocated = Counter[str]()
    for row in queries.of_consumer(session, held_by):
        allocated[row.resource_class] += row.used
    old, (new, *_) = instance.flavor, resource_alternatives(flavor, None)
    return KeptResources(
        host=instance.host or "",
        node=instance.node or "",
        resources={name: min(amount, allocated[name]) for name, amount in new.items()},
        vcpus=min(old.vcpus, flavor.vcpus),
        memory_mb=min(old.memory_mb, flavor.memory_mb),
        disk_gb=min(old.disk_gb, flavor.disk_gb),
    )
