"""The parts of a request for servers that concern their guests: interfaces, disks, files and password. They are stored, and go to
the hosts that build the guests.
"""

import msgspec

from minova.objects.catalogue.flavor import LocalDisk
from minova.objects.requests.evacuation import Evacuation


class RequestedNic(msgspec.Struct, frozen=True, kw_only=True):
    """An interface that a new server shall have: an existing port, or a new port on a network.

    `security_groups`: ids, for a new port; None: the default group of its project.
    `segment`: what its host must have a bridge for.
    `service`: the service that has the network.
    `tag`: of the interface.
    """

    network_id: str
    segment: str | None = None
    port_id: str | None = None
    ip_address: str | None = None
    security_groups: tuple[str, ...] | None = None
    service: str = ""
    tag: str | None = None


class NewInterface(RequestedNic, frozen=True, kw_only=True):
    """An interface that is added to a server. `id`: of the port that is created for it, if the request names none."""

    id: str


class GuestFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file for the config drive. `contents`: in base64."""

    path: str
    contents: str = ""


class BuildExtras(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a request that the conductor stores and passes on to the compute."""

    requested_networks: tuple[RequestedNic, ...] = ()
    security_groups: tuple[str, ...] = ()
    block_device_mapping: tuple[LocalDisk, ...] = ()
    injected_files: tuple[GuestFile, ...] = ()
    admin_password: str | None = None
    evacuation: Evacuation | None = None

    def without_secrets(self) -> "BuildExtras":
        return msgspec.structs.replace(self, injected_files=(), admin_password=None)
