"""The scheduler's request for a move: the server's first request with its present image and its new size. The stored
request does not change.
"""

import uuid
from collections.abc import Collection, Sequence

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.db.networks import vifs
from minova.db.servers import instances, request_specs
from minova.hardware.demands import host_needs
from minova.objects.catalogue.flavor import Flavor
from minova.objects.network.physical_networks import require_segments
from minova.objects.requests.request_spec import Destination, PlacementFilter, RequestSpec, Retry
from minova.objects.servers.instance import Instance


def spec_of(
    session: Session,
    instance: Instance,
    flavor: Flavor,
    aliases: Sequence[str],
    *,
    host: str | None = None,
    forced: bool = False,
    without: Collection[str] = (),
) -> RequestSpec:
    """`host`: the only one that may be chosen. `forced`: without the filters' consent. `without`: hosts that may not be. As in Nova, a host that was forced when
    the server was created does not count.
    """
    stored = request_specs.load(session, [instance.reservation_id]).get(instance.reservation_id)
    if stored is None:
        raise errors.Conflict(f"The request of instance {instance.uuid} is gone, so it cannot be scheduled")
    first, needs = stored[0], host_needs(flavor, instance.image, aliases)
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
        numa_topology=needs.numa_topology,
        pci_requests=tuple(
            msgspec.structs.replace(request, request_id=str(uuid.uuid4())) for request in needs.pci_requests
        ),
        placement=require_segments(
            PlacementFilter(required_traits=needs.required_traits), vifs.segments_of(session, instance.uuid)
        ),
    )
