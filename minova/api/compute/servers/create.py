"""`POST /servers`: validates the request and sends it to the conductor."""

import hashlib
import re
import uuid
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute import flavors
from minova.api.compute.collaborators import Collaborators
from minova.api.compute.servers import guest_data
from minova.api.compute.servers import security_groups as groups
from minova.api.compute.servers.networks.requested import Nic, access_address, requested_networks
from minova.api.compute.servers.scheduler_hints import checked_hints, group_of
from minova.api.compute.servers.servers import Description
from minova.api.http import links, names
from minova.api.http.body import MAX_INT64
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.microversions import History, added, changed, removed, required
from minova.api.http.structs import Boolean, Int64, is_true
from minova.codecs import parse_json
from minova.db import quotas
from minova.db.api_queries import availability_zones, instances
from minova.db.api_queries import services as read_services
from minova.db.catalogue import key_pairs, server_groups
from minova.db.servers import request_specs
from minova.hardware.demands import host_needs, require_agreement_of
from minova.hardware.guest.keys import require_served
from minova.objects.actions.rebuild import InjectedFile
from minova.objects.catalogue import disk_config
from minova.objects.catalogue.disk_config import DiskConfig
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.image_fitness import format_refused, unfit
from minova.objects.catalogue.key_pair import KeyPair
from minova.objects.catalogue.quota import UNLIMITED
from minova.objects.guests.local_disks import requested_disks, requested_root_tag
from minova.objects.network.network import DEFAULT_GROUP, MAX_GROUPS
from minova.objects.requests import required_traits
from minova.objects.requests.server_request import CreateServers, ServerRequest
from minova.objects.servers.server_changes import MAX_TAGS

REQUEST_UUID = "X-Minova-Request-UUID"
# More servers would make one transaction and one scheduling decision too long: the client waits for them.
MAX_SERVERS = 1000
METADATA_KEY = re.compile(r"[a-zA-Z0-9\-_:. ]{1,255}")

Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_INT64)]
Zone = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Address = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
# Nova's rule: not empty, no commas and slashes.
Tag = Annotated[str, msgspec.Meta(min_length=1, max_length=60, pattern=r"^[^,/\x00]*$")]
HostName = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9-._]*$")]
Text255 = Annotated[str, msgspec.Meta(max_length=255)]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The requested place of a server: anywhere in `zone`, or on one host or node."""

    zone: str | None = None
    host: str | None = None
    node: str | None = None

    @property
    def forced(self) -> bool:
        return self.host is not None or self.node is not None


def place_of(zone_text: str | None) -> Place:
    """Parses `zone`, `zone:host`, `zone:host:node` or `zone::node`. Raises BadRequest for any other text."""
    if not zone_text:
        return Place()
    parts = zone_text.split(":")
    if len(parts) > 3 or len(zone_text) > 255 or not zone_text.isprintable():
        raise errors.BadRequest(
            "Invalid availability_zone: it must look like ZONE, ZONE:HOST, ZONE:HOST:NODE or ZONE::NODE."
        )
    zone, host, node = [*(part or None for part in parts), None, None][:3]
    return Place(zone=zone, host=host, node=node)


class NewServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Some fields are accepted only with values that change nothing: see `_refuse_unserved`."""

    name: str
    flavor_ref: str | Int64 = msgspec.field(name="flavorRef")
    image_ref: str = msgspec.field(name="imageRef", default="")
    min_count: Count | None = None
    max_count: Count | None = None
    return_reservation_id: Boolean = False
    availability_zone: Zone | None = None
    availability_zone_old: Zone | None = msgspec.field(name="os-availability-zone:availability_zone", default=None)
    metadata: dict[str, Text255] = {}
    user_data: guest_data.UserData | None = None
    config_drive: Boolean | None = None
    key_name: Text255 | None = None
    networks: list[Nic] | Literal["none", "auto"] | None = None
    security_groups: Annotated[list[groups.RequestedGroup], msgspec.Meta(max_length=MAX_GROUPS)] | None = None
    block_device_mapping: list[dict[str, Any]] | None = None
    block_device_mapping_v2: list[dict[str, Any]] | None = None
    personality: list[InjectedFile] | None = None
    admin_password: str | None = msgspec.field(name="adminPass", default=None)
    disk_config: DiskConfig | None = msgspec.field(name="OS-DCF:diskConfig", default=None)
    access_ipv4: Address | msgspec.UnsetType = msgspec.field(name="accessIPv4", default=msgspec.UNSET)
    access_ipv6: Address | msgspec.UnsetType = msgspec.field(name="accessIPv6", default=msgspec.UNSET)
    description: Description | None = None
    tags: Annotated[list[Tag], msgspec.Meta(max_length=MAX_TAGS)] | None = None
    trusted_image_certificates: (
        Annotated[list[Annotated[str, msgspec.Meta(min_length=1)]], msgspec.Meta(min_length=1, max_length=50)] | None
    ) = None
    host: HostName | None = None
    hypervisor_hostname: HostName | None = None
    hostname: str | None = None


class DeviceMapping(msgspec.Struct, frozen=True, kw_only=True):
    """The field of an entry of `block_device_mapping_v2` that microversions change; `requested_disks` checks the
    others.
    """

    tag: str | None = None


# As for networks: Nova accepts a tag in 2.32, and then again from 2.42 on.
MAPPING_HISTORY = History(DeviceMapping, added("2.32", "tag"), removed("2.33", "tag"), added("2.42", "tag"))
BODY_HISTORY = History(
    NewServer,
    added("2.19", "description", note="before, it is the name"),
    changed("2.37", "networks", note="may be none or auto"),
    required("2.37", "networks"),
    added("2.52", "tags"),
    removed("2.57", "personality"),
    added("2.63", "trusted_image_certificates", note="refused with 400: images are not verified by certificates"),
    added("2.74", "host", "hypervisor_hostname", note="for administrators"),
    added("2.90", "hostname"),
    changed("2.94", "hostname", note="may be a full name with dots"),
)


class CreateServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    server: NewServer
    hints: dict[str, Any] | None = msgspec.field(name="os:scheduler_hints", default=None)
    hints_old: dict[str, Any] | None = msgspec.field(name="OS-SCH-HNT:scheduler_hints", default=None)


class CreatedServer(msgspec.Struct, frozen=True, kw_only=True):
    """`adminPass`: only if the guest can read the password."""

    id: str
    admin_password: str | msgspec.UnsetType | None = msgspec.field(name="adminPass", default=msgspec.UNSET)
    links: tuple[links.Link, ...]
    disk_config: str = msgspec.field(name="OS-DCF:diskConfig")
    security_groups: tuple[dict[str, str], ...]


def create(api: Collaborators, call: Call) -> dict[str, Any]:
    """Creates servers. Idempotent: a repetition with the same X-Minova-Request-UUID and body returns the
    first answer.
    """
    server: NewServer = call.body.server
    identity = _identity(call)
    created = _earlier_answer(api, call, identity) or _created(api, call, server, identity)
    if is_true(server.return_reservation_id):
        return {"reservation_id": created.reservation_id}
    call.response.set_header("Location", call.url(f"/v2.1/servers/{created.first_uuid}"))
    is_shown = created.admin_password is not None and api.conf.api.enable_instance_password
    named = tuple({"name": group.name} for group in server.security_groups or ())
    answer = CreatedServer(
        id=created.first_uuid,
        links=links.links_to(call, "servers", created.first_uuid),
        admin_password=created.admin_password if is_shown else msgspec.UNSET,
        disk_config=created.disk_config,
        security_groups=named or ({"name": DEFAULT_GROUP},),
    )
    return {"server": answer}


class RequestIdentity(NamedTuple):
    """The UUID of the request, and a hash of the body, which distinguishes a repetition from another request.

    The hash does not depend on the order of keys. A client may send the UUID; otherwise it is a new one, so that the call
    of the conductor can be repeated, too.
    """

    request_uuid: str
    body_hash: str
    is_from_client: bool


class Created(NamedTuple):
    """What the answer shows of the servers."""

    reservation_id: str
    first_uuid: str
    admin_password: str | None
    disk_config: DiskConfig


def _created(api: Collaborators, call: Call, server: NewServer, identity: RequestIdentity) -> Created:
    checked = checked_request(api, call, server, identity)
    request = checked.request
    created = api.conductor.create_servers(
        call.ctx, request=request, key_pair=checked.key_pair, with_drive=_is_new(request)
    )
    return Created(created.reservation_id, created.instance_uuids[0], created.admin_password, request.disk_config)


def _is_new(request: CreateServers) -> bool:
    """Whether the request has fields that an older conductor would lose."""
    named = (
        request.access_ip_v4,
        request.access_ip_v6,
        request.hostname,
        request.requested_host,
        request.requested_node,
    )
    return (
        request.config_drive
        or bool(request.tags)
        or request.disk_config == "AUTO"
        or any(value is not None for value in named)
    )


def _identity(call: Call) -> RequestIdentity:
    canonical = msgspec.json.encode(parse_json(call.raw), order="deterministic")
    body_hash = hashlib.sha256(canonical).hexdigest()
    request_uuid = call.request.get_header(REQUEST_UUID)
    if not request_uuid:
        return RequestIdentity(str(uuid.uuid4()), body_hash, is_from_client=False)
    try:
        return RequestIdentity(str(uuid.UUID(request_uuid)), body_hash, is_from_client=True)
    except ValueError:
        raise errors.BadRequest(f"{REQUEST_UUID}: '{request_uuid[:64]}' is not a UUID.") from None


def _earlier_answer(api: Collaborators, call: Call, identity: RequestIdentity) -> Created | None:
    """Returns the answer to an earlier request with this UUID, even if its flavor or image has gone meanwhile. The
    conductor checks again.
    """
    if not identity.is_from_client:
        return None
    with api.db.read() as session:
        row = request_specs.find_create_request(session, identity.request_uuid, call.ctx.project_id)
        if row is None:
            return None
        if row.body_hash != identity.body_hash:
            raise errors.Conflict(f"{REQUEST_UUID} {identity.request_uuid} was used before for another request.")
        password = request_specs.password_of(session, row.reservation_id)
        first_uuid = row.instance_uuids[0]
        instance = instances.instance(session, first_uuid, None, deleted=True)
        stored = disk_config.of_metadata(instance.system_metadata if instance is not None else {})
    return Created(row.reservation_id, first_uuid, password, stored)


class CheckedRequest(NamedTuple):
    """A request that is allowed and possible, with the user's key pair, whose text the servers keep."""

    request: CreateServers
    key_pair: KeyPair | None


def checked_request(
    api: Collaborators, call: Call, server: NewServer, identity: RequestIdentity | None = None
) -> CheckedRequest:
    """Checks the request once, for all rooms below. `identity` None: the request is not written.

    Raises Forbidden or BadRequest if the request is not allowed or not possible.
    """
    counts = _counts(server)
    place = placement_request(api, call, server)
    flavor, image = place.flavor, place.image
    assert image is not None
    key_pair = _key_pair(api, call, server)
    request = CreateServers(
        flavor=flavor,
        image=image,
        needs=place.needs,
        availability_zone=place.availability_zone,
        force_host=place.force_host,
        force_node=place.force_node,
        requested_host=place.requested_host,
        requested_node=place.requested_node,
        scheduler_hints=place.scheduler_hints,
        **_guest_data(api, call, server, image)._asdict(),
        name=_name(server, counts.maximum),
        min_count=counts.minimum,
        max_count=counts.maximum,
        request_uuid=None if identity is None else identity.request_uuid,
        body_hash="" if identity is None else identity.body_hash,
        metadata=checked_metadata(api, call, server.metadata),
        key_name=server.key_name,
        access_ip_v4=access_address(4, server.access_ipv4 or "") or None,
        access_ip_v6=access_address(6, server.access_ipv6 or "") or None,
        description=_description(call, server),
        hostname=_hostname(call, server, counts.maximum),
        tags=tuple(sorted(set(server.tags or ()))),
        requested_networks=requested_networks(
            api,
            call,
            server.networks,
            counts.maximum,
            groups.requested(api, call, server.security_groups),
        ),
        block_device_mapping=_local_disks(api, call, server, flavor),
        root_disk_tag=requested_root_tag(server.block_device_mapping_v2 or (), server.image_ref),
        disk_config=checked_disk_config(server.disk_config, image),
    )
    # Last, as in Nova, where only the scheduler looks at it.
    required_traits.check(flavor, image)
    return CheckedRequest(request, key_pair)


def placement_request(api: Collaborators, call: Call, server: NewServer, *, any_image: bool = False) -> ServerRequest:
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
    require_agreement_of(flavor, image)
    needs = host_needs(flavor, image, api.conf.pci.alias)
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


def _check_destination(api: Collaborators, call: Call, server: NewServer, *, forced: bool) -> None:
    """Raises Forbidden if the policy does not permit naming a host, BadRequest if there is no such host."""
    if server.host is None and server.hypervisor_hostname is None:
        return
    call.require("compute:servers:create:requested_destination")
    if forced:
        raise errors.BadRequest(
            "One mechanism with host and/or hypervisor_hostname and another mechanism with zone:host:node are mutually exclusive."
        )
    with api.db.read() as session:
        there = read_services.has_node(session, server.host, server.hypervisor_hostname)
    if not there:
        raise errors.BadRequest(f"Compute host {server.host or server.hypervisor_hostname} could not be found.")


def _description(call: Call, server: NewServer) -> str | None:
    """As in Nova, the name is the description in versions without descriptions."""
    return server.description if call.has(BODY_HISTORY, "description") else server.name


def _hostname(call: Call, server: NewServer, servers: int) -> str | None:
    if server.hostname is None:
        return None
    if servers > 1:
        raise errors.BadRequest("Unable to allocate a single hostname to multiple instances")
    return names.checked_hostname(server.hostname, dots=call.since("2.94"))


class Counts(NamedTuple):
    minimum: int
    maximum: int


def _counts(server: NewServer) -> Counts:
    minimum = server.min_count or 1
    maximum = server.max_count or minimum
    if minimum > maximum:
        raise errors.BadRequest(f"min_count must be <= max_count, and {minimum} is more than {maximum}.")
    if maximum > MAX_SERVERS:
        raise errors.Forbidden(
            f"Quota exceeded for instances: requested {maximum}, but one request makes {MAX_SERVERS}."
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
    image_uuid = image_id(server.image_ref)
    if not image_uuid and not any_image:
        raise errors.BadRequest("imageRef is missing: booting from a volume is not served yet, so give an image.")
    with api.db.read() as session:
        # Reads the image first: Glance answers before a connection to the database is taken.
        image = api.images.visible(session, image_uuid, call) if image_uuid else None
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


def check_zone(api: Collaborators, session: Session, zone: str) -> None:
    """Raises BadRequest if no enabled compute service is in the zone."""
    if not availability_zones.is_available(session, zone, api.conf.scheduler.default_availability_zone):
        raise errors.BadRequest(f"The requested availability zone is not available: {zone[:255]}.")


def _hints(api: Collaborators, call: Call) -> dict[str, Any]:
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


def _guest_data(api: Collaborators, call: Call, server: NewServer, image: Image) -> guest_data.GuestData:
    requested = guest_data.RequestedGuestData(
        user_data=server.user_data,
        config_drive=is_true(server.config_drive),
        personality=tuple(server.personality or ()),
        admin_password=server.admin_password,
    )
    return guest_data.checked(api, call, requested, image)


def _key_pair(api: Collaborators, call: Call, server: NewServer) -> KeyPair | None:
    """Returns the user's key pair of that name, whose public key the servers keep. Raises BadRequest if
    there is none.
    """
    if server.key_name is None:
        return None
    with api.db.read() as session:
        key_pair = key_pairs.find(session, call.ctx.user_id, server.key_name)
    if key_pair is None:
        raise errors.BadRequest("Invalid key_name provided.")
    return key_pair


def checked_metadata(api: Collaborators, call: Call, metadata: dict[str, str]) -> dict[str, str]:
    """Raises BadRequest if a key is invalid, Forbidden if there are too many items."""
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


def checked_disk_config(requested: DiskConfig | None, image: Image) -> DiskConfig:
    """Returns the requested value, or the image's default. Raises BadRequest if the image forbids the value."""
    if requested == "AUTO" and disk_config.of_image(image.properties) == "disabled":
        raise errors.BadRequest(f"Requested image {image.id} has automatic disk resize disabled.")
    return requested or disk_config.default_of(image.properties)


def _local_disks(api: Collaborators, call: Call, server: NewServer, flavor: Flavor) -> tuple[dict[str, Any], ...]:
    """Returns the ephemeral disks and the swap disk that the request defines. Raises BadRequest if they are invalid."""
    mappings = server.block_device_mapping_v2 or []
    if any("tag" in mapping for mapping in mappings) and not call.has(MAPPING_HISTORY, "tag"):
        raise errors.BadRequest(
            "Invalid input for field/attribute block_device_mapping_v2. Additional properties are not allowed ('tag' was unexpected)"
        )
    disks = requested_disks(mappings, server.image_ref, flavor, api.conf.max_local_block_devices) if mappings else None
    return tuple(msgspec.structs.asdict(disk) for disk in disks or ())


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


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/v2.1/servers",
        rule="os_compute_api:servers:create",
        handler=create,
        answer={"server?": CreatedServer, "reservation_id?": str},
        body=CreateServer,
        status=202,
    ),
)
