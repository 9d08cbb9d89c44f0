"""Images of servers. Pure."""

from typing import Annotated

import msgspec

from minova.objects.actions.action import Arguments, ServerAction
from minova.objects.servers.states import TaskState, VmState

ImageName = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
# The key format of the Compute API's schema for metadata of servers and images.
MetadataKey = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9-_:. ]{1,255}$")]
MetadataValue = Annotated[str, msgspec.Meta(max_length=255)]


class CreateImageArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The API creates the image's record from them."""

    name: ImageName
    metadata: dict[MetadataKey, MetadataValue] = msgspec.field(default_factory=dict)


class CreateBackupArguments(CreateImageArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`rotation`: how many backups of this type are kept, including the new one."""

    backup_type: Annotated[str, msgspec.Meta(max_length=255)]
    rotation: Annotated[int, msgspec.Meta(ge=0, le=0x7FFFFFFF)]


CREATE_IMAGE = ServerAction(
    kind="snapshot",
    done="made into an image",
    name="createImage",
    arguments=CreateImageArguments,
    vm_states=frozenset({VmState.ACTIVE, VmState.STOPPED, VmState.PAUSED, VmState.SUSPENDED}),
    progress=(
        TaskState.IMAGE_SNAPSHOT_PENDING,
        TaskState.IMAGE_SNAPSHOT,
        TaskState.IMAGE_PENDING_UPLOAD,
        TaskState.IMAGE_UPLOADING,
    ),
    reported=(TaskState.IMAGE_PENDING_UPLOAD, TaskState.IMAGE_UPLOADING),
    ends_in=None,
    makes_image=True,
    # As in Nova: a lock protects against changes and deletions.
    ignores_lock=True,
    opens_disk=True,
    policy="servers:create_image",
)
CREATE_BACKUP = ServerAction(
    kind="backup",
    done="backed up",
    name="createBackup",
    arguments=CreateBackupArguments,
    vm_states=CREATE_IMAGE.vm_states,
    progress=(TaskState.IMAGE_BACKUP, TaskState.IMAGE_PENDING_UPLOAD, TaskState.IMAGE_UPLOADING),
    reported=CREATE_IMAGE.reported,
    ends_in=None,
    makes_image=True,
    ignores_lock=True,
    opens_disk=True,
    policy="os-create-backup",
    notification="snapshot",
)
ACTIONS = (
    CREATE_IMAGE,
    CREATE_BACKUP,
)
