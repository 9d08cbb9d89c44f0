"""`POST /servers`: validates the request and sends it to the conductor."""

import hashlib
import uuid
from typing import Any, NamedTuple

import msgspec

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers import guest_data
from minova.api.compute.servers import security_groups as groups
from minova.api.compute.servers.guest_data import key_pair_named
from minova.api.compute.servers.networks.requested import access_address, requested_networks
from minova.api.compute.servers.new_server import BODY_HISTORY, MAPPING_HISTORY, METADATA_KEY, CreateServer, NewServer
from minova.api.compute.servers.placement_request import placement_request
from minova.api.http import links, names
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.structs import is_true
from minova.codecs import parse_json
from minova.db import quotas
from minova.db.api_queries import instances
from minova.db.servers import request_specs
from minova.objects.catalogue import disk_config
from minova.objects.catalogue.disk_config import DiskConfig
from minova.objects.catalogue.flavor import Flavor, LocalDisk
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.key_pair import KeyPair
from minova.objects.catalogue.quota import UNLIMITED
from minova.objects.guests.local_disks import requested_disks, requested_root_tag
from minova.objects.network.network import DEFAULT_GROUP
from minova.objects.requests import required_traits
from minova.objects.requests.server_request import CreateServers

REQUEST_UUID = "X-Minova-Request-UUID"
# More servers would make one transaction and one scheduling decision too long: the client waits for them.
MAX_SERVERS = 1000


class CreatedServer(msgspec.Struct, frozen=True, kw_only=True):
    """`adminPass`: only if the guest can read the password."""

    id: str
    admin_password: str | msgspec.UnsetType | None = msgspec.field(name="adminPass", default=msgspec.UNSET)
    links: tuple[links.Link, ...]
    disk_config: str = msgspec.field(name="OS-DCF:diskConfig")
    security_groups: tuple[dict[str, str], ...]


def create(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
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
    group_names = tuple({"name": group.name} for group in server.security_groups or ())
    answer = CreatedServer(
        id=created.first_uuid,
        links=links.links_to(call, "servers", created.first_uuid),
        admin_password=created.admin_password if is_shown else msgspec.UNSET,
        disk_config=created.disk_config,
        security_groups=group_names or ({"name": DEFAULT_GROUP},),
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


class CreationAnswer(NamedTuple):
    """The servers in the answer."""

    reservation_id: str
    first_uuid: str
    admin_password: str | None
    disk_config: DiskConfig


def _created(api: ComputeApiCollaborators, call: Call, server: NewServer, identity: RequestIdentity) -> CreationAnswer:
    checked = checked_request(api, call, server, identity)
    request = checked.request
    created = api.conductor.create_servers(call.ctx, request=request, key_pair=checked.key_pair)
    return CreationAnswer(
        created.reservation_id, created.instance_uuids[0], created.admin_password, request.disk_config
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


def _earlier_answer(api: ComputeApiCollaborators, call: Call, identity: RequestIdentity) -> CreationAnswer | None:
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
    return CreationAnswer(row.reservation_id, first_uuid, password, stored)


class CheckedRequest(NamedTuple):
    """A request that is allowed and possible, with the user's key pair, whose text the servers keep."""

    request: CreateServers
    key_pair: KeyPair | None


def checked_request(
    api: ComputeApiCollaborators, call: Call, server: NewServer, identity: RequestIdentity | None = None
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


def _description(call: Call, server: NewServer) -> str | None:
    """As in Nova, the name is the description in versions without descriptions."""
    return server.description if call.has(BODY_HISTORY, "description") else server.name


def _hostname(call: Call, server: NewServer, servers: int) -> str | None:
    if server.hostname is None:
        return None
    if servers > 1:
        raise errors.BadRequest("Unable to allocate a single hostname to multiple instances")
    return names.checked_hostname(server.hostname, dots=call.since("2.94"))


class CountRange(NamedTuple):
    minimum: int
    maximum: int


def _counts(server: NewServer) -> CountRange:
    minimum = server.min_count or 1
    maximum = server.max_count or minimum
    if minimum > maximum:
        raise errors.BadRequest(f"min_count must be <= max_count, and {minimum} is more than {maximum}.")
    if maximum > MAX_SERVERS:
        raise errors.Forbidden(
            f"Quota exceeded for instances: requested {maximum}, but one request makes {MAX_SERVERS}."
        )
    return CountRange(minimum, maximum)


def _name(server: NewServer, maximum: int) -> str:
    name = names.checked("Server name", server.name)
    longest = names.LONGEST - (len(f"-{maximum}") if maximum > 1 else 0)
    if len(name) > longest:
        raise errors.BadRequest(f"Server name is not valid: with the numbers of {maximum} servers it is too long.")
    return name


def _guest_data(api: ComputeApiCollaborators, call: Call, server: NewServer, image: Image) -> guest_data.GuestFields:
    requested = guest_data.RequestedGuestData(
        user_data=server.user_data,
        config_drive=is_true(server.config_drive),
        personality=tuple(server.personality or ()),
        admin_password=server.admin_password,
    )
    return guest_data.checked(api, call, requested, image)


def _key_pair(api: ComputeApiCollaborators, call: Call, server: NewServer) -> KeyPair | None:
    """Returns the user's key pair of that name, whose public key the servers keep. Raises BadRequest if
    there is none.
    """
    if server.key_name is None:
        return None
    with api.db.read() as session:
        return key_pair_named(session, call, server.key_name)


def checked_metadata(api: ComputeApiCollaborators, call: Call, metadata: dict[str, str]) -> dict[str, str]:
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


def _local_disks(api: ComputeApiCollaborators, call: Call, server: NewServer, flavor: Flavor) -> tuple[LocalDisk, ...]:
    """Returns the ephemeral disks and the swap disk that the request defines. Raises BadRequest if they are invalid."""
    mappings = server.block_device_mapping_v2 or []
    if any("tag" in mapping for mapping in mappings) and not call.has(MAPPING_HISTORY, "tag"):
        raise errors.BadRequest(
            "Invalid input for field/attribute block_device_mapping_v2. Additional properties are not allowed ('tag' was unexpected)"
        )
    disks = requested_disks(mappings, server.image_ref, flavor, api.conf.max_local_block_devices) if mappings else None
    return disks or ()


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
