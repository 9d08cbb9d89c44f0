"""The part of `POST /servers` that decides the hosts of the servers: flavor, image, zone, host and scheduler hints."""

import uuid
from typing import Any, NamedTuple

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute import flavors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers.boot_files import with_boot_files
from minova.api.compute.servers.new_server import NewServer
from minova.api.compute.servers.scheduler_hints import checked_hints, group_of
from minova.api.http.call import Call
from minova.db.api_queries import availability_zones
from minova.db.api_queries import services as read_services
from minova.db.catalogue import server_groups
from minova.hardware.demands import host_needs, require_agreement_of
from minova.hardware.guest.features import FlavorAndImage
from minova.hardware.guest.keys import require_served
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.image_fitness import format_refused, unfit
from minova.objects.requests.server_request import ServerRequest


class RequestedPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The requested place of a server: anywhere in `zone`, or on one host or node."""

    zone: str | None = None
    host: str | None = None
    node: str | None = None

    @property
    def forced(self) -> bool:
        return self.host is not None or self.node is not None


def place_of(zone_text: str | None) -> RequestedPlace:
    """Parses `zone`, `zone:host`, `zone:host:node` or `zone::node`. Raises BadRequest for any other text."""
    if not zone_text:
        return RequestedPlace()
    parts = zone_text.split(":")
    if len(parts) > 3 or len(zone_text) > 255 or not zone_text.isprintable():
        raise errors.BadRequest(
            "Invalid availability_zone: it must look like ZONE, ZONE:HOST, ZONE:HOST:NODE or ZONE::NODE."
        )
    zone, host, node = [*(part or None for part in parts), None, None][:3]
    return RequestedPlace(zone=zone, host=host, node=node)


def placement_request(
    api: ComputeApiCollaborators, call: Call, server: NewServer, *, any_image: bool = False
) -> ServerRequest:
    """Checks and returns the part of the request that decides the hosts of the servers, without its networks.

    `any_image`: a request without imageRef stands for any image.
    """
    place = place_of(server.availability_zone or server.availability_zone_old)
    if place.forced:
        call.require("os_compute_api:servers:create:forced_host")
    _check_destination(api, call, server, forced=place.forced)
    flavor, image = _boot_source(api, call, server, any_image)
    _check_zero_disk(call, flavor)
    faults = unfit(image, flavor) if image is not None else ()
    if image is not None and faults:
        raise errors.BadRequest(
            f"Flavor {flavor.name} is too small for requested image {image.id}: {'; '.join(faults)}."
        )
    require_served(flavor.extra_specs, image.properties if image is not None else {})
    guest = FlavorAndImage(flavor, image)
    require_agreement_of(guest)
    needs = host_needs(guest, api.conf.pci.alias)
    if place.zone is not None and not place.forced:
        with api.db.read() as session:
            check_zone(api, session, place.zone)
    _refuse_unserved(call, server)
    return ServerRequest(
        flavor=flavor,
        image=image,
        needs=needs,
        availability_zone=place.zone,
        force_host=place.host,
        force_node=place.node,
        requested_host=server.host,
        requested_node=server.hypervisor_hostname,
        scheduler_hints=_hints(api, call),
    )


def _refuse_unserved(call: Call, server: NewServer) -> None:
    """Refuses what is not implemented, instead of dropping it silently. Values that request nothing are accepted."""
    unserved = {
        "block_device_mapping": bool(server.block_device_mapping),
        # Only a list is accepted before 2.37.
        "networks as a word (since 2.37)": isinstance(server.networks, str) and not call.since("2.37"),
        "trusted_image_certificates": bool(server.trusted_image_certificates),
    }
    refused = [name for name, is_asked in unserved.items() if is_asked]
    if any(name.startswith("block_device") for name in refused):
        raise errors.BadRequest(
            f"Not served: {', '.join(refused)}. There is no volume service; a server boots from its image."
        )
    if refused:
        raise errors.BadRequest(f"Not served yet: {', '.join(refused)}. Ask again without.")


def _check_destination(api: ComputeApiCollaborators, call: Call, server: NewServer, *, forced: bool) -> None:
    """Raises Forbidden if the policy does not permit naming a host, BadRequest if there is no such host."""
    if server.host is None and server.hypervisor_hostname is None:
        return
    call.require("compute:servers:create:requested_destination")
    if forced:
        raise errors.BadRequest(
            "One mechanism with host and/or hypervisor_hostname and another mechanism with zone:host:node are mutually exclusive."
        )
    with api.db.read() as session:
        exists = read_services.has_node(session, server.host, server.hypervisor_hostname)
    if not exists:
        raise errors.BadRequest(f"Compute host {server.host or server.hypervisor_hostname} could not be found.")


class BootSource(NamedTuple):
    flavor: Flavor
    image: Image | None


def _boot_source(api: ComputeApiCollaborators, call: Call, server: NewServer, any_image: bool) -> BootSource:
    flavorid = str(server.flavor_ref).rstrip("/").rpartition("/")[2]
    image_uuid = image_id(server.image_ref)
    if not image_uuid and not any_image:
        raise errors.BadRequest("imageRef is missing: booting from a volume is not served yet, so give an image.")
    with api.db.read() as session:
        # Reads the image first: Glance answers before a connection to the database is taken.
        image = api.images.visible(session, image_uuid, call) if image_uuid else None
        image = image and with_boot_files(api, call, session, image)
        flavor = flavors.visible(session, flavorid, call)
    if flavor is None:
        raise errors.BadRequest(f"Invalid flavorRef provided: flavor {flavorid[:255]} could not be found.")
    if image_uuid:
        check_image(image, image_uuid)
    return BootSource(flavor, image)


def image_id(reference: str) -> str:
    """Returns the canonical id, or "" for "".

    Raises BadRequest for any other text, even a URL, as Nova does since 2.1.
    """
    if not reference:
        return ""
    try:
        return str(uuid.UUID(reference))
    except ValueError:
        raise errors.BadRequest(
            f"Invalid input for field/attribute imageRef. Value: {reference[:255]}. It is not a 'uuid'."
        ) from None


def check_image(image: Image | None, image_id: str) -> None:
    if image is None:
        raise errors.BadRequest(f"Can not find requested image: {image_id}.")
    if image.status != "active":
        raise errors.BadRequest(f"Image {image.id} is not active: its status is {image.status}.")
    refused = format_refused(image.disk_format, image.container_format)
    if refused:
        raise errors.BadRequest(f"Image {image.id}: {refused}")


def _check_zero_disk(call: Call, flavor: Flavor) -> None:
    """Raises Forbidden if the flavor has no root disk and the policy does not permit that.

    Such a root disk is as large as the image, and the scheduler does not count it.
    """
    if flavor.root_gb == 0 and not call.permits("os_compute_api:servers:create:zero_disk_flavor"):
        raise errors.Forbidden("Only volume-backed servers are allowed for flavors with zero disk.")


def check_zone(api: ComputeApiCollaborators, session: Session, zone: str) -> None:
    """Raises BadRequest if no enabled compute service is in the zone."""
    if not availability_zones.is_available(session, zone, api.conf.scheduler.default_availability_zone):
        raise errors.BadRequest(f"The requested availability zone is not available: {zone[:255]}.")


def _hints(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Raises BadRequest if a hint is malformed, or the server group does not exist or belongs to another project."""
    hints = checked_hints(call.body.hints or call.body.hints_old or {})
    group_uuid = group_of(hints)
    if group_uuid is None:
        return {key: value for key, value in hints.items() if key != "group"}
    with api.db.read() as session:
        group = server_groups.find(session, group_uuid)
    if group is None or (group.project_id != call.ctx.project_id and not call.ctx.is_admin):
        raise errors.BadRequest(f"Instance group {group_uuid} could not be found.")
    return {**hints, "group": group_uuid}
