"""What a server needs of its next host with its present flavor, image and interfaces. The stored request is that of its creation, and
does not change with the server.
"""

import uuid
from collections.abc import Sequence
from typing import TypedDict

import msgspec
from sqlalchemy.orm import Session

from minova.db.networks import vifs
from minova.hardware.demands import host_needs
from minova.hardware.guest.features import FlavorAndImage
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.hosts.pci import InstancePCIRequest
from minova.objects.network.physical_networks import require_segments
from minova.objects.requests.request_spec import PlacementFilter


class PresentNeeds(TypedDict):
    """Fields of a RequestSpec."""

    numa_topology: InstanceNUMATopology | None
    pci_requests: tuple[InstancePCIRequest, ...]
    placement: PlacementFilter


def needs_now(
    session: Session, instance_uuid: str, flavor: Flavor, image: Image | None, aliases: Sequence[str]
) -> PresentNeeds:
    """`aliases`: the values of [pci] alias. Raises BadRequest as `host_needs`."""
    needs = host_needs(FlavorAndImage(flavor, image), aliases)
    return {
        "numa_topology": needs.numa_topology,
        "pci_requests": tuple(
            msgspec.structs.replace(request, request_id=str(uuid.uuid4())) for request in needs.pci_requests
        ),
        "placement": require_segments(
            PlacementFilter(required_traits=needs.required_traits), vifs.segments_of(session, instance_uuid)
        ),
    }
