"""The API's requests to the conductor to create servers."""

from typing import Any

import msgspec

from minova.objects.catalogue.disk_config import DiskConfig
from minova.objects.catalogue.flavor import Flavor, LocalDisk
from minova.objects.catalogue.image import Image
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.hosts.pci import InstancePCIRequest
from minova.objects.requests.build_extras import GuestFile, RequestedNic


class HostNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """The requirements of flavor and image on hosts, beyond sizes. The API derives it once, for all rooms below.

    `required_traits`: of the devices of the guests.
    """

    numa_topology: InstanceNUMATopology | None = None
    pci_requests: tuple[InstancePCIRequest, ...] = ()
    required_traits: tuple[str, ...] = ()


class ServerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a request that decides the hosts of the servers. `image` None: any image. A requested host, unlike a
    forced one, must pass the filters.

    `needs`: None from an API of an older release: the conductor then derives them.
    """

    flavor: Flavor
    image: Image | None = None
    needs: HostNeeds | None = None
    min_count: int = 1
    max_count: int = 1
    availability_zone: str | None = None
    force_host: str | None = None
    force_node: str | None = None
    requested_host: str | None = None
    requested_node: str | None = None
    scheduler_hints: dict[str, Any] = {}
    requested_networks: tuple[RequestedNic, ...] = ()


class CreateServers(ServerRequest, frozen=True, kw_only=True):
    """A checked request.

    `request_uuid`: supplied by the client, so that a repeated request creates nothing twice.
    `body_hash`: distinguishes a repetition from another request with the same UUID.
    `hostname`: for one server, as the request spells it.
    """

    name: str
    image: Image
    request_uuid: str | None = None
    body_hash: str = ""
    metadata: dict[str, str] = {}
    user_data: str | None = None
    key_name: str | None = None
    config_drive: bool = False
    hostname: str | None = None
    access_ip_v4: str | None = None
    access_ip_v6: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    block_device_mapping: tuple[LocalDisk, ...] = ()
    root_disk_tag: str | None = None
    injected_files: tuple[GuestFile, ...] = ()
    admin_password: str | None = None
    disk_config: DiskConfig = "MANUAL"


class CreatedServers(msgspec.Struct, frozen=True, kw_only=True):
    """`admin_password`: the password that the guests read on their config drives. For a repeated request it is returned
    only until they are built.
    """

    reservation_id: str
    instance_uuids: tuple[str, ...]
    admin_password: str | None = None
