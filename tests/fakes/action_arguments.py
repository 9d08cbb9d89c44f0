"""Arguments that each server action of the table may have, and what guests are after it."""

import uuid
from typing import Any

import msgspec

from minova.objects.actions.action import ServerAction
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.catalogue.image import Image
from minova.objects.servers.states import VmState

IMAGE = "6d0c8a5e-0000-4000-8000-00000000000a"
PASSWORD = "s3cr3t of the guest"
PORT = "6d0c8a5e-0000-4000-8000-00000000000b"
_POWER_STATES = {VmState.ACTIVE: 1, VmState.PAUSED: 3, VmState.RESCUED: 1}


def body_of(action: ServerAction) -> Any:
    """What stands beside its key in a request."""
    if action.key == "createBackup":
        return {"name": "shot", "backup_type": "daily", "rotation": 1}
    if action.makes_image and action.key != "shelve":
        return {"name": "shot"}
    if action.key == "rebuild":
        return {"imageRef": IMAGE}
    if action.key == "changePassword":
        return {"adminPass": PASSWORD}
    return {"type": action.variant} if action.key == "reboot" else None


def asked_with(action: ServerAction) -> dict[str, Any]:
    """What the conductor gets for such a body."""
    return {"image": {"id": IMAGE}} if action.key == "rebuild" else sent_with(action)


def sent_with(action: ServerAction) -> dict[str, Any]:
    """What the host gets for such a body. Each image is another one."""
    if action.makes_image:
        image = Image(
            id=str(uuid.uuid4()),
            name="web-shelved" if action.key == "shelve" else "shot",
            disk_format="qcow2",
            container_format="bare",
            owner="p",
            visibility="private",
        )
        return {"image": msgspec.to_builtins(image), **({"rotation": 1} if action.key == "createBackup" else {})}
    if action.key == "changePassword":
        return {"admin_password": PASSWORD}
    if action.kind.endswith("_interface"):
        return {"port_id": PORT}
    return {}


def host_arguments(action: ServerAction) -> HostArguments:
    """`sent_with`, as the compute's contract has it."""
    return msgspec.convert(sent_with(action), HostArguments)


def power_state_after(action: ServerAction) -> int:
    """Once it has gone well."""
    return _POWER_STATES.get(action.ends_in or VmState.ACTIVE, 4)
