"""`POST /servers`: what may be asked, whether it fits together, and the request to the conductor."""

import hashlib
import re
import uuid
from typing import Annotated, Any, NamedTuple

import msgspec

from minova import errors
from minova.api.compute import flavors
from minova.api.compute.collaborators import Collaborators
from minova.api.compute.servers.scheduler_hints import checked_hints, group_of
from minova.api.compute.servers.zone_target import place_of
from minova.api.http import links, names
from minova.api.http.body import MAX_INT64
from minova.api.http.call import Call
from minova.api.http.structs import Int64
from minova.api.image import images
from minova.codecs import parse_json
from minova.db import quotas
from minova.db.api_queries import availability_zones, instances
from minova.db.api_queries import flavors as read_flavors
from minova.db.api_queries import images as read_images
from minova.db.catalogue import server_groups
from minova.hardware.demands import demands_of
from minova.objects.flavor import Flavor
from minova.objects.guest_hardware import guest_hardware
from minova.objects.image import Image
from minova.objects.quota import UNLIMITED
from minova.objects.server_request import CreatedServers, CreateServers
from minova.virt.image_format import unfit

REQUEST_UUID = "X-Minova-Request-UUID"
# Beyond, one transaction and one scheduling decision would take too long for the client to wait for.
MOST_SERVERS = 1000
METADATA_KEY = re.compile(r"[a-zA-Z0-9\-_:. ]{1,255}")

Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_INT64)]
Text255 = Annotated[str, msgspec.Meta(max_length=255)]


class NewServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields from `user_data` on are taken only with values that change nothing: see `_refuse_unserved`."""

    name: str
    flavor_ref: str | Int64 = msgspec.field(name="flavorRef")
    image_ref: str = msgspec.field(name="imageRef", default="")
    min_count: Count | None = None
    max_count: Count | None = None
    return_reservation_id: bool = False
    availability_zone: str | None = None
    availability_zone_old: str | None = msgspec.field(name="os-availability-zone:availability_zone", default=None)
    metadata: dict[str, Text255] = {}
    user_data: str | None = None
    config_drive: bool | None = None
    key_name: str | None = None
    networks: list[dict[str, Any]] | str | None = None
    security_groups: list[dict[str, Any]] | None = None
    block_device_mapping: list[dict[str, Any]] | None = None
    block_device_mapping_v2: list[dict[str, Any]] | None = None
    personality: list[dict[str, Any]] | None = None
    admin_password: str | None = msgspec.field(name="adminPass", default=None)
    disk_config: str = msgspec.field(name="OS-DCF:diskConfig", default="MANUAL")
    access_ipv4: str = msgspec.field(name="accessIPv4", default="")
    access_ipv6: str = msgspec.field(name="accessIPv6", default="")


class CreateServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    server: NewServer
    hints: dict[str, Any] | None = msgspec.field(name="os:scheduler_hints", default=None)
    hints_old: dict[str, Any] | None = msgspec.field(name="OS-SCH-HNT:scheduler_hints", default=None)


class CreatedServer(msgspec.Struct, frozen=True, kw_only=True):
    """Without `adminPass`, as Nova answers with `enable_instance_password = False`: no password is set in the guest."""

    id: str
    links: tuple[links.Link, ...]
    disk_config: str = msgspec.field(name="OS-DCF:diskConfig", default="MANUAL")
    security_groups: tuple[dict[str, str], ...] = ({"name": "default"},)


def create(api: Collaborators, call: Call) -> dict[str, Any]:
    """Repeated with the same X-Minova-Request-UUID and body, it answers what it made the first time."""
    server: NewServer = call.body.server
    identity = _identity(call)
    request_uuid, body_hash = identity.request_uuid, identity.body_hash
    made = _made_before(api, call, request_uuid, body_hash) if request_uuid else None
    if made is None:
        # With a UUID of our own the call to the conductor can be repeated, too.
        request = request_of(api, call, server, request_uuid or str(uuid.uuid4()), body_hash)
        made = api.conductor.create_servers(call.ctx, request=request)
    if server.return_reservation_id:
        return {"reservation_id": made.reservation_id}
    first = made.instance_uuids[0]
    call.response.set_header("Location", call.url(f"/v2.1/servers/{first}"))
    return {"server": CreatedServer(id=first, links=links.of_thing(call, "servers", first))}


class RequestIdentity(NamedTuple):
    """The client's UUID of the request, and a hash of the body, which distinguishes a repetition from another request. The
    order of keys does not matter.
    """

    request_uuid: str | None
    body_hash: str


def _identity(call: Call) -> RequestIdentity:
    canonical = msgspec.json.encode(parse_json(call.raw), order="deterministic")
    body_hash = hashlib.sha256(canonical).hexdigest()
    request_uuid = call.request.get_header(REQUEST_UUID)
    if not request_uuid:
        return RequestIdentity(None, body_hash)
    try:
        return RequestIdentity(str(uuid.UUID(request_uuid)), body_hash)
    except ValueError:
        raise errors.BadRequest(f"{REQUEST_UUID}: '{request_uuid[:64]}' is not a UUID.") from None


def _made_before(api: Collaborators, call: Call, request_uuid: str, body_hash: str) -> CreatedServers | None:
    """So that a repetition is answered although its flavor or image has gone meanwhile. The conductor looks again."""
    with api.db.read() as session:
        row = instances.create_request(session, request_uuid, call.ctx.project_id)
    if row is None:
        return None
    if row.body_hash != body_hash:
        raise errors.Conflict(f"{REQUEST_UUID} {request_uuid} was used before for another request.")
    return CreatedServers(reservation_id=row.reservation_id, instance_uuids=tuple(row.instance_uuids))


def request_of(
    api: Collaborators, call: Call, server: NewServer, request_uuid: str | None = None, body_hash: str = ""
) -> CreateServers:
    """What is asked, checked. Forbidden, BadRequest: it may not or cannot be."""
    counts = _counts(server)
    return CreateServers(
        **wanted(api, call, server),
        name=_name(server, counts.maximum),
        min_count=counts.minimum,
        max_count=counts.maximum,
        request_uuid=request_uuid,
        body_hash=body_hash,
        metadata=_metadata(api, call, server.metadata),
    )


def wanted(api: Collaborators, call: Call, server: NewServer, *, any_image: bool = False) -> dict[str, Any]:
    """What decides where it goes, checked: fields of ServerRequest. `any_image`: without imageRef it is of any."""
    place = place_of(server.availability_zone or server.availability_zone_old)
    if place.forced:
        call.require("os_compute_api:servers:create:forced_host")
    flavor, image = _boot_source(api, call, server, any_image)
    _check_zero_disk(call, flavor)
    faults = unfit(image, flavor) if image is not None else ()
    if image is not None and faults:
        raise errors.BadRequest(
            f"Flavor {flavor.name} is too small for requested image {image.id}: {'; '.join(faults)}."
        )
    demands_of(flavor, image, api.conf.pci.alias)  # whose errors are the asker's
    guest_hardware(image.properties if image is not None else {})  # likewise
    _check_zone(api, place.zone if not place.forced else None)
    _refuse_unserved(server)
    return {
        "flavor": flavor,
        "image": image,
        "availability_zone": place.zone,
        "force_host": place.host,
        "force_node": place.node,
        "scheduler_hints": _hints(api, call),
    }


class Counts(NamedTuple):
    minimum: int
    maximum: int


def _counts(server: NewServer) -> Counts:
    minimum = server.min_count or 1
    maximum = server.max_count or minimum
    if minimum > maximum:
        raise errors.BadRequest(f"min_count must be <= max_count, and {minimum} is more than {maximum}.")
    if maximum > MOST_SERVERS:
        raise errors.Forbidden(
            f"Quota exceeded for instances: requested {maximum}, but one request makes {MOST_SERVERS}."
        )
    return Counts(minimum, maximum)


def _name(server: NewServer, maximum: int) -> str:
    name = names.checked("Server name", server.name)
    longest = names.LONGEST - (len(f"-{maximum}") if maximum > 1 else 0)
    if len(name) > longest:
        raise errors.BadRequest(f"Server name is not valid: with the numbers of {maximum} servers it is too long.")
    return name


class BootSource(NamedTuple):
    flavor: Flavor
    image: Image | None


def _boot_source(api: Collaborators, call: Call, server: NewServer, any_image: bool) -> BootSource:
    flavorid = str(server.flavor_ref).rstrip("/").rpartition("/")[2]
    image_id = server.image_ref.rstrip("/").rpartition("/")[2]
    if not image_id and not any_image:
        raise errors.BadRequest("imageRef is missing: booting from a volume is not served yet, so give an image.")
    with api.db.read() as session:
        flavor = flavors.visible(read_flavors.flavor(session, flavorid), call)
        image = images.visible(read_images.image(session, image_id), call) if image_id else None
    if flavor is None:
        raise errors.BadRequest(f"Invalid flavorRef provided: flavor {flavorid[:255]} could not be found.")
    if image_id:
        _check_image(image, image_id)
    return BootSource(flavor, image)


def _check_image(image: Image | None, image_id: str) -> None:
    if image is None:
        raise errors.BadRequest(f"Can not find requested image: {image_id}.")
    if image.status != "active":
        raise errors.BadRequest(f"Image {image.id} is not active: its status is {image.status}.")


def _check_zero_disk(call: Call, flavor: Flavor) -> None:
    """The root disk of such a flavor is as large as the image, and the scheduler does not count it. Raises Forbidden."""
    if flavor.root_gb == 0 and not call.permits("os_compute_api:servers:create:zero_disk_flavor"):
        raise errors.Forbidden("Only volume-backed servers are allowed for flavors with zero disk.")


def _check_zone(api: Collaborators, zone: str | None) -> None:
    if zone is None:
        return
    with api.db.read() as session:
        there = availability_zones.is_available(session, zone, api.conf.scheduler.default_availability_zone)
    if not there:
        raise errors.BadRequest(f"The requested availability zone is not available: {zone[:255]}.")


def _hints(api: Collaborators, call: Call) -> dict[str, Any]:
    """BadRequest: malformed ones, or a server group that is not there or another project's."""
    hints = checked_hints(call.body.hints or call.body.hints_old or {})
    wanted = group_of(hints)
    if wanted is None:
        return {key: value for key, value in hints.items() if key != "group"}
    with api.db.read() as session:
        group = server_groups.find(session, wanted)
    if group is None or (group.project_id != call.ctx.project_id and not call.ctx.is_admin):
        raise errors.BadRequest(f"Instance group {wanted} could not be found.")
    return {**hints, "group": wanted}


def _metadata(api: Collaborators, call: Call, metadata: dict[str, str]) -> dict[str, str]:
    if metadata:
        with api.db.read() as session:
            most = quotas.limits_of(session, api.conf, call.ctx.project_id)["metadata_items"]
        if UNLIMITED != most < len(metadata):
            raise errors.Forbidden(f"Maximum number of metadata items exceeds {most}.")
    for key in metadata:
        if not METADATA_KEY.fullmatch(key):
            raise errors.BadRequest(
                "Invalid input for field server.metadata: keys are 1 to 255 letters, digits, spaces, or any of - _ : ."
            )
    return metadata


def _refuse_unserved(server: NewServer) -> None:
    """What cannot be done yet is refused, never dropped in silence; what asks for nothing is fine."""
    unserved = {
        "networks": server.networks not in (None, [], "none", "auto"),
        "security_groups": any(group != {"name": "default"} for group in server.security_groups or []),
        "block_device_mapping": bool(server.block_device_mapping),
        "block_device_mapping_v2": any(
            not _is_the_image(server, device) for device in server.block_device_mapping_v2 or []
        ),
        # No guest could read these: it has neither a config drive nor a metadata service.
        "user_data": bool(server.user_data),
        "config_drive": server.config_drive is True,
        "personality": bool(server.personality),
        "adminPass": server.admin_password is not None,
        "key_name": server.key_name is not None,
        "accessIPv4": bool(server.access_ipv4),
        "accessIPv6": bool(server.access_ipv6),
        "OS-DCF:diskConfig AUTO": server.disk_config != "MANUAL",
    }
    refused = [name for name, is_asked in unserved.items() if is_asked]
    if refused:
        raise errors.BadRequest(f"Not served yet: {', '.join(refused)}. Ask again without.")


def _is_the_image(server: NewServer, mapping: dict[str, Any]) -> bool:
    """Clients spell out the root disk that a server has anyway."""
    plain = {"source_type": "image", "destination_type": "local", "boot_index": 0, "uuid": server.image_ref}
    rest = {key: value for key, value in mapping.items() if key != "delete_on_termination"}
    return rest == plain and mapping.get("delete_on_termination", True) is True
