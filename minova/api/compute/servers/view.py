"""The representation of a server at each microversion."""

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from minova.api.compute.servers.networks.requested import addresses_of
from minova.api.http import links, times
from minova.api.http.call import Call
from minova.api.http.links import Link
from minova.api.http.microversions import History, added, changed, removed
from minova.db import models
from minova.db.api_queries.instances import InstanceRow
from minova.objects.catalogue import disk_config
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.guests.guest_states import stands_still
from minova.objects.network.vif import Vif
from minova.objects.requests.request_spec import RequestSpec
from minova.objects.servers.failures import text_of
from minova.objects.servers.server_status import Status, status_of
from minova.objects.servers.states import TaskState, VmState, power_state_of

WITH_PROGRESS = frozenset(
    (Status.ACTIVE, Status.BUILD, Status.REBUILD, Status.RESIZE, Status.VERIFY_RESIZE, Status.MIGRATING)
)
WITH_FAULT = frozenset((Status.ERROR, Status.DELETED))


class ServerBrief(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    links: tuple[Link, ...]


class LinkedImage(msgspec.Struct, frozen=True, kw_only=True):
    """`properties`: those that describe how to build a guest."""

    id: str
    links: tuple[Link, ...]
    properties: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


class FlavorOfServer(msgspec.Struct, frozen=True, kw_only=True):
    """A link to the flavor; from 2.47 on the flavor at the time when the server was made. `extra_specs` if the policy
    permits them.
    """

    id: str | msgspec.UnsetType = msgspec.UNSET
    links: tuple[Link, ...] | msgspec.UnsetType = msgspec.UNSET
    vcpus: int | msgspec.UnsetType = msgspec.UNSET
    ram: int | msgspec.UnsetType = msgspec.UNSET
    disk: int | msgspec.UnsetType = msgspec.UNSET
    ephemeral: int | msgspec.UnsetType = msgspec.UNSET
    swap: int | msgspec.UnsetType = msgspec.UNSET
    original_name: str | msgspec.UnsetType = msgspec.UNSET
    extra_specs: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


class FaultView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`details` are for administrators."""

    code: int
    message: str
    created: str
    details: str | None = None


class ServerView(ServerBrief, frozen=True, kw_only=True):
    """As in Nova, missing values are empty strings and lists. OS-EXT-SRV-ATTR and `host_status` are for
    administrators.
    """

    status: Status
    tenant_id: str
    user_id: str
    metadata: dict[str, str]
    host_id: str = msgspec.field(name="hostId")
    image: LinkedImage | str
    flavor: FlavorOfServer
    created: str
    updated: str
    addresses: dict[str, Any] = {}
    security_groups: tuple[dict[str, str], ...] | msgspec.UnsetType = msgspec.UNSET
    access_ipv4: str = msgspec.field(name="accessIPv4", default="")
    access_ipv6: str = msgspec.field(name="accessIPv6", default="")
    disk_config: str = msgspec.field(name="OS-DCF:diskConfig", default="MANUAL")
    progress: int | msgspec.UnsetType = msgspec.UNSET
    availability_zone: str = msgspec.field(name="OS-EXT-AZ:availability_zone")
    config_drive: str
    key_name: str | None
    launched_at: str | None = msgspec.field(name="OS-SRV-USG:launched_at")
    terminated_at: str | None = msgspec.field(name="OS-SRV-USG:terminated_at")
    task_state: str | None = msgspec.field(name="OS-EXT-STS:task_state")
    vm_state: str = msgspec.field(name="OS-EXT-STS:vm_state")
    power_state: int = msgspec.field(name="OS-EXT-STS:power_state")
    volumes_attached: tuple[dict[str, Any], ...] = msgspec.field(
        name="os-extended-volumes:volumes_attached", default=()
    )
    fault: FaultView | msgspec.UnsetType = msgspec.UNSET
    host: str | msgspec.UnsetType | None = msgspec.field(name="OS-EXT-SRV-ATTR:host", default=msgspec.UNSET)
    node: str | msgspec.UnsetType | None = msgspec.field(
        name="OS-EXT-SRV-ATTR:hypervisor_hostname", default=msgspec.UNSET
    )
    instance_name: str | msgspec.UnsetType = msgspec.field(name="OS-EXT-SRV-ATTR:instance_name", default=msgspec.UNSET)
    hostname: str | msgspec.UnsetType = msgspec.field(name="OS-EXT-SRV-ATTR:hostname", default=msgspec.UNSET)
    reservation_id: str | msgspec.UnsetType = msgspec.field(
        name="OS-EXT-SRV-ATTR:reservation_id", default=msgspec.UNSET
    )
    launch_index: int | msgspec.UnsetType = msgspec.field(name="OS-EXT-SRV-ATTR:launch_index", default=msgspec.UNSET)
    kernel_id: str | msgspec.UnsetType = msgspec.field(name="OS-EXT-SRV-ATTR:kernel_id", default=msgspec.UNSET)
    ramdisk_id: str | msgspec.UnsetType = msgspec.field(name="OS-EXT-SRV-ATTR:ramdisk_id", default=msgspec.UNSET)
    root_device_name: str | msgspec.UnsetType = msgspec.field(
        name="OS-EXT-SRV-ATTR:root_device_name", default=msgspec.UNSET
    )
    user_data: str | msgspec.UnsetType | None = msgspec.field(name="OS-EXT-SRV-ATTR:user_data", default=msgspec.UNSET)
    host_status: str | msgspec.UnsetType = msgspec.UNSET
    locked: bool
    description: str | None
    tags: tuple[str, ...]
    trusted_image_certificates: None = None
    server_groups: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    locked_reason: str | None
    pinned_availability_zone: str | None
    scheduler_hints: dict[str, list[Any]] | msgspec.UnsetType = msgspec.UNSET


ANSWER_HISTORY = History(
    ServerView,
    added(
        "2.3",
        "OS-EXT-SRV-ATTR:hostname",
        "OS-EXT-SRV-ATTR:reservation_id",
        "OS-EXT-SRV-ATTR:launch_index",
        "OS-EXT-SRV-ATTR:kernel_id",
        "OS-EXT-SRV-ATTR:ramdisk_id",
        "OS-EXT-SRV-ATTR:root_device_name",
        "OS-EXT-SRV-ATTR:user_data",
        note="for administrators",
    ),
    added("2.9", "locked"),
    added("2.16", "host_status", note="for administrators"),
    added("2.19", "description"),
    added("2.26", "tags"),
    changed("2.47", "flavor", note="has the flavor's sizes, name and extra specs"),
    added("2.63", "trusted_image_certificates", note="null: images are not verified by certificates"),
    added("2.71", "server_groups", note="where one server is shown"),
    added("2.73", "locked_reason"),
    changed("2.90", "OS-EXT-SRV-ATTR:hostname", note="for everybody"),
    added("2.96", "pinned_availability_zone"),
    changed("2.98", "image", note="has properties of the image"),
    added("2.100", "scheduler_hints"),
)
# Only for the descriptions: `_flavor` returns one of the two forms.
FLAVOR_ANSWER_HISTORY = History(
    FlavorOfServer,
    removed("2.47", "id", "links"),
    added("2.47", "vcpus", "ram", "disk", "ephemeral", "swap", "original_name", "extra_specs"),
)
EMBEDDED_FLAVOR, HOSTNAME_FOR_ALL, IMAGE_PROPERTIES = "2.47", "2.90", "2.98"
HOST_STATUS = "os_compute_api:servers:show:host_status"
FLAVOR_SPECS = "os_compute_api:servers:show:flavor-extra-specs"
# The properties of an image that describe how to build a guest.
_GUEST_PROPERTIES = re.compile(r"hw_.*|img_.*|os_.*|architecture|hypervisor_type|vm_mode|auto_disk_config|traits?_.*")


class ServerParts(msgspec.Struct, frozen=True, kw_only=True):
    """The shown parts of a server that are not in its row.

    `zone`: the zone of its host.
    `image`: the image that it has now.
    `security_groups`: the names.
    UNSET values are not shown.
    """

    zone: str
    fault: models.InstanceFault | None = None
    vifs: Sequence[Vif] = ()
    security_groups: Sequence[str] = ()
    tags: tuple[str, ...] = ()
    host_status: str | msgspec.UnsetType = msgspec.UNSET
    groups: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    image: Image | None = None
    spec: RequestSpec | None = None


class ServerForm:
    """The representation of servers for one request: values that are the same for all servers are computed once."""

    def __init__(self, call: Call) -> None:
        self.is_admin = call.ctx.is_admin
        self.version, self.everything = call.version, call.shows_all
        self.servers = links.LinkBases(call, "servers")
        self.images = links.LinkBases(call, "images")
        self.flavors = links.LinkBases(call, "flavors")
        self.has_host_attributes = call.permits("os_compute_api:os-extended-server-attributes")
        self.has_hostname = call.since(HOSTNAME_FOR_ALL)
        self.has_image_properties = call.since(IMAGE_PROPERTIES)
        # Whether a part of the answer needs the request of the server.
        self.shows_request = self.has_image_properties or call.has(ANSWER_HISTORY, "scheduler_hints")
        self.embeds_flavor = call.since(EMBEDDED_FLAVOR)
        self.has_flavor_specs = self.embeds_flavor and call.permits(FLAVOR_SPECS)


def shown_status(row: InstanceRow) -> Status:
    return Status.DELETED if row.deleted_at is not None else status_of(row.vm_state, row.task_state)


def host_id(project_id: str, host: str | None) -> str:
    """Returns a hash that tells a project which of its servers share a host, without the host's name."""
    return hashlib.sha224((project_id + host).encode()).hexdigest() if host else ""


def brief(form: ServerForm, row: InstanceRow) -> ServerBrief:
    return ServerBrief(id=row.uuid, name=row.display_name, links=form.servers.links_to(row.uuid))


def view(form: ServerForm, row: InstanceRow, parts: ServerParts) -> ServerView:
    """Returns the representation of a server. Until the server has a host, it shows the requested zone."""
    status = shown_status(row)
    fault = parts.fault
    complete = ServerView(
        id=row.uuid,
        name=row.display_name,
        links=form.servers.links_to(row.uuid),
        status=status,
        tenant_id=row.project_id,
        user_id=row.user_id,
        metadata=row.metadata_,
        host_id=host_id(row.project_id, row.host),
        image=_image(form, row, parts.image) if row.image_ref else "",
        flavor=_flavor(form, row.flavor),
        created=times.seconds(row.created_at),
        updated=times.seconds(row.updated_at or row.created_at),
        addresses=addresses_of(parts.vifs),
        security_groups=tuple({"name": name} for name in parts.security_groups) or msgspec.UNSET,
        progress=row.progress if status in WITH_PROGRESS else msgspec.UNSET,
        availability_zone=parts.zone if row.host else row.availability_zone or "",
        access_ipv4=row.access_ip_v4 or "",
        access_ipv6=row.access_ip_v6 or "",
        disk_config=disk_config.of_metadata(row.system_metadata),
        config_drive="True" if row.config_drive else "",
        key_name=row.key_name,
        launched_at=times.microseconds(row.launched_at),
        terminated_at=times.microseconds(row.terminated_at),
        task_state=row.task_state,
        vm_state=row.vm_state,
        power_state=row.power_state,
        fault=_fault(form, fault) if fault is not None and shows_fault(row) else msgspec.UNSET,
        host_status=parts.host_status,
        locked=row.locked_by is not None,
        description=row.description,
        tags=parts.tags,
        server_groups=parts.groups,
        locked_reason=row.locked_reason,
        pinned_availability_zone=row.availability_zone,
        scheduler_hints=_hints(parts.spec),
        **_attributes(form, row),
    )
    return ANSWER_HISTORY.of_version(complete, form.version, everything=form.everything)


def _attributes(form: ServerForm, row: InstanceRow) -> dict[str, Any]:
    if not form.has_host_attributes:
        return {"hostname": row.hostname} if form.has_hostname else {}
    return {
        "host": row.host,
        "node": row.node,
        "instance_name": f"instance-{row.uuid}",
        "hostname": row.hostname,
        "reservation_id": row.reservation_id,
        "launch_index": row.launch_index,
        "kernel_id": row.kernel_id,
        "ramdisk_id": row.ramdisk_id,
        "root_device_name": "/dev/vda",
        "user_data": row.user_data,
    }


def _image(form: ServerForm, row: InstanceRow, image: Image | None) -> LinkedImage:
    properties: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    if form.has_image_properties:
        image_properties = {} if image is None else image.properties
        properties = {key: value for key, value in image_properties.items() if _GUEST_PROPERTIES.fullmatch(key)}
    return LinkedImage(id=row.image_ref, links=form.images.bookmark(row.image_ref), properties=properties)


def _flavor(form: ServerForm, flavor: Flavor) -> FlavorOfServer:
    if not form.embeds_flavor:
        return FlavorOfServer(id=flavor.flavorid, links=form.flavors.bookmark(flavor.flavorid))
    return FlavorOfServer(
        vcpus=flavor.vcpus,
        ram=flavor.memory_mb,
        disk=flavor.root_gb,
        ephemeral=flavor.ephemeral_gb,
        swap=flavor.swap,
        original_name=flavor.name,
        extra_specs=flavor.extra_specs if form.has_flavor_specs else msgspec.UNSET,
    )


def _hints(spec: RequestSpec | None) -> dict[str, list[Any]]:
    """Returns each hint as a list, as in Nova."""
    hints = {} if spec is None else spec.scheduler_hints
    return {key: value if isinstance(value, list) else [value] for key, value in hints.items()}


def shows_fault(row: InstanceRow) -> bool:
    """Whether the fault is shown: as in Nova, during a delete, because the host may fail to do it, while the guest stands
    still, and after an action that has failed until the next one begins.
    """
    is_shown = shown_status(row) in WITH_FAULT or row.task_state == TaskState.DELETING or row.has_fault
    return is_shown or (row.task_state is None and stands_still(VmState(row.vm_state), power_state_of(row.power_state)))


def _fault(form: ServerForm, fault: models.InstanceFault) -> FaultView:
    """A text that an older release has stored is for administrators only: it names hosts, paths and
    hypervisor errors.
    """
    admin, message = form.is_admin, fault.message
    if not admin and fault.kind is None:
        message = text_of(None)
    details = fault.details if admin and fault.details else None
    return FaultView(code=fault.code, message=message, created=times.seconds(fault.created_at), details=details)
