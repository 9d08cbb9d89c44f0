"""The body of `POST /servers`, with the microversions of its fields."""

import re
from typing import Annotated, Any, Literal

import msgspec

from minova.api.compute.servers import guest_data
from minova.api.compute.servers import security_groups as groups
from minova.api.compute.servers.networks.requested import Nic
from minova.api.compute.servers.servers import Description
from minova.api.http.body import MAX_INT64
from minova.api.http.microversions import History, added, changed, removed, required
from minova.api.http.structs import Boolean, Int64
from minova.objects.actions.rebuild import InjectedFile
from minova.objects.catalogue.disk_config import DiskConfig
from minova.objects.network.network import MAX_GROUPS
from minova.objects.servers.server_changes import MAX_TAGS

METADATA_KEY = re.compile(r"[a-zA-Z0-9\-_:. ]{1,255}")

Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_INT64)]
Zone = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Address = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
# Nova's rule: not empty, no commas and slashes.
Tag = Annotated[str, msgspec.Meta(min_length=1, max_length=60, pattern=r"^[^,/\x00]*$")]
HostName = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9-._]*$")]
Text255 = Annotated[str, msgspec.Meta(max_length=255)]


class NewServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Some fields are accepted only with values that change nothing: see `placement_request`."""

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
