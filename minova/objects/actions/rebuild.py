"""Rebuilds: the request, the changes of the server, and what its host gets. Pure."""

from typing import Annotated, Any

import msgspec

from minova.objects.actions.action import Arguments, ServerAction
from minova.objects.catalogue.disk_config import DiskConfig
from minova.objects.catalogue.image import Image
from minova.objects.requests.build_extras import GuestFile
from minova.objects.servers.states import TaskState, VmState

Address = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class InjectedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nova's `personality`, until 2.56. `contents` in base64."""

    path: str
    contents: str


class RebuildArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As in Nova. The API checks the values, and which microversions accept which fields."""

    image_ref: str = msgspec.field(name="imageRef")
    name: str | msgspec.UnsetType = msgspec.UNSET
    metadata: dict[str, Annotated[str, msgspec.Meta(max_length=255)]] | msgspec.UnsetType = msgspec.UNSET
    admin_password: str | None = msgspec.field(name="adminPass", default=None)
    personality: list[InjectedFile] | msgspec.UnsetType = msgspec.UNSET
    preserve_ephemeral: Any = False
    disk_config: DiskConfig | msgspec.UnsetType = msgspec.field(name="OS-DCF:diskConfig", default=msgspec.UNSET)
    access_ipv4: Address | msgspec.UnsetType = msgspec.field(name="accessIPv4", default=msgspec.UNSET)
    access_ipv6: Address | msgspec.UnsetType = msgspec.field(name="accessIPv6", default=msgspec.UNSET)
    description: Annotated[str, msgspec.Meta(max_length=255)] | msgspec.UnsetType | None = msgspec.UNSET
    hostname: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] | msgspec.UnsetType = msgspec.UNSET
    key_name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] | msgspec.UnsetType | None = msgspec.UNSET
    user_data: Annotated[str, msgspec.Meta(max_length=65535)] | msgspec.UnsetType | None = msgspec.UNSET


class RebuiltServer(msgspec.Struct, frozen=True, kw_only=True):
    """A checked request. `changes`: new values of further columns of the instance, such as `display_name`.

    `files` and `admin_password`: for its config drive.
    """

    image: Image
    changes: dict[str, Any] = {}
    files: tuple[GuestFile, ...] = ()
    admin_password: str | None = None


REBUILD = ServerAction(
    kind="rebuild",
    done="rebuilt",
    arguments=RebuildArguments,
    vm_states=frozenset({VmState.ACTIVE, VmState.STOPPED, VmState.ERROR}),
    progress=(TaskState.REBUILDING, TaskState.REBUILD_BLOCK_DEVICE_MAPPING, TaskState.REBUILD_SPAWNING),
    ends_in=VmState.ACTIVE,
    keeps=frozenset({VmState.STOPPED}),
    fails_in=VmState.ERROR,
    changes_at=TaskState.REBUILD_SPAWNING,
    redefines_domain=True,
    notifies_errors=True,
    changes_image=True,
)
ACTIONS = (REBUILD,)
