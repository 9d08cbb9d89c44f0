"""How a server looks: the exact shape of Compute API 2.1."""

import hashlib
from typing import Any

import msgspec

from minova.api.http import links, times
from minova.api.http.call import Call
from minova.db import models
from minova.objects.failures import text_of
from minova.objects.states import TaskState, VmState

# vm_state -> status, as Nova shows them.
STATUS: dict[str, str] = {
    VmState.BUILDING: "BUILD",
    VmState.ACTIVE: "ACTIVE",
    VmState.PAUSED: "PAUSED",
    VmState.SUSPENDED: "SUSPENDED",
    VmState.STOPPED: "SHUTOFF",
    VmState.RESCUED: "RESCUE",
    VmState.RESIZED: "VERIFY_RESIZE",
    VmState.SOFT_DELETED: "SOFT_DELETED",
    VmState.DELETED: "DELETED",
    VmState.ERROR: "ERROR",
    VmState.SHELVED: "SHELVED",
    VmState.SHELVED_OFFLOADED: "SHELVED_OFFLOADED",
}
WITH_PROGRESS = {"ACTIVE", "BUILD", "DELETED", "SOFT_DELETED", "ERROR", "SHUTOFF", "SHELVED", "SHELVED_OFFLOADED"}
WITH_FAULT = {"ERROR", "DELETED"}
ACTIVE_PROGRESS = 100


class ServerBrief(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    links: tuple[links.Link, ...]


class Linked(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    links: tuple[links.Link, ...]


class FaultView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`details` are for administrators."""

    code: int
    message: str
    created: str
    details: str | None = None


class ServerView(ServerBrief, frozen=True, kw_only=True):
    """Empty strings and lists stand where Nova has them for what is not there. The last three are for administrators."""

    status: str
    tenant_id: str
    user_id: str
    metadata: dict[str, str]
    host_id: str = msgspec.field(name="hostId")
    image: Linked | str
    flavor: Linked
    created: str
    updated: str
    addresses: dict[str, Any] = {}
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


def status_of(row: models.Instance) -> str:
    return "DELETED" if row.deleted_at is not None else STATUS.get(row.vm_state, "UNKNOWN")


def host_id(project_id: str, host: str | None) -> str:
    """A hash by which a project sees which of its servers share a host, without the host's name."""
    return hashlib.sha224((project_id + host).encode()).hexdigest() if host else ""


def brief(call: Call, row: models.Instance) -> ServerBrief:
    return ServerBrief(id=row.uuid, name=row.display_name, links=links.of_thing(call, "servers", row.uuid))


def view(call: Call, row: models.Instance, fault: models.InstanceFault | None, zone: str) -> ServerView:
    """`zone` is that of its host; until it has one, the zone that was asked for is shown."""
    status = status_of(row)
    where: dict[str, Any] = {}
    if call.permits("os_compute_api:os-extended-server-attributes"):
        where = {"host": row.host, "node": row.node, "instance_name": f"instance-{row.uuid}"}
    return ServerView(
        id=row.uuid,
        name=row.display_name,
        links=links.of_thing(call, "servers", row.uuid),
        status=status,
        tenant_id=row.project_id,
        user_id=row.user_id,
        metadata=row.metadata_,
        host_id=host_id(row.project_id, row.host),
        image=Linked(id=row.image_ref, links=links.bookmark(call, "images", row.image_ref)) if row.image_ref else "",
        flavor=Linked(id=row.flavor.flavorid, links=links.bookmark(call, "flavors", row.flavor.flavorid)),
        created=times.seconds(row.created_at),
        updated=times.seconds(row.updated_at or row.created_at),
        progress=_progress(row, status) if status in WITH_PROGRESS else msgspec.UNSET,
        availability_zone=zone if row.host else row.availability_zone or "",
        config_drive="True" if row.config_drive else "",
        key_name=row.key_name,
        launched_at=times.microseconds(row.launched_at),
        terminated_at=times.microseconds(row.terminated_at),
        task_state=row.task_state,
        vm_state=row.vm_state,
        power_state=row.power_state,
        fault=_fault(call, fault) if fault is not None and shows_fault(row) else msgspec.UNSET,
        **where,
    )


def _progress(row: models.Instance, status: str) -> int:
    return row.progress or (ACTIVE_PROGRESS if status == "ACTIVE" and row.task_state is None else 0)


def shows_fault(row: models.Instance) -> bool:
    """As in Nova, and while a delete goes on: its host may be unable to do it."""
    return status_of(row) in WITH_FAULT or row.task_state == TaskState.DELETING


def _fault(call: Call, fault: models.InstanceFault) -> FaultView:
    """What an older release has written is for administrators alone: it names hosts, paths and the hypervisor's words."""
    admin, message = call.ctx.is_admin, fault.message
    if not admin and fault.kind is None:
        message = text_of(None)
    details = fault.details if admin and fault.details else None
    return FaultView(code=fault.code, message=message, created=times.seconds(fault.created_at), details=details)
