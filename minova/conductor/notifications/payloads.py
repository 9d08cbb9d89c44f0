"""Payloads in the format of Nova's unversioned notifications, as far as minova has the data. Pure."""

from datetime import UTC, datetime
from typing import Any

from minova.objects.catalogue import kernel_boot
from minova.objects.catalogue.image import Image
from minova.objects.requests.legacy_spec import legacy_request_spec
from minova.objects.requests.request_spec import RequestSpec
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import State, VmState


def instance_info(instance: Instance, images_url: str) -> dict[str, Any]:
    """Returns the items of every notification of an instance. Times are UTC; a time that is not set is an empty text,
    as in Nova.
    """
    flavor, image = instance.flavor, instance.image
    properties = image.properties if image is not None else {}
    return {
        "tenant_id": instance.project_id,
        "user_id": instance.user_id,
        "instance_id": instance.uuid,
        "display_name": instance.display_name,
        "reservation_id": instance.reservation_id,
        "hostname": instance.hostname,
        "instance_type": flavor.name,
        "instance_flavor_id": flavor.flavorid,
        "architecture": properties.get("hw_architecture") or properties.get("architecture"),
        "memory_mb": flavor.memory_mb,
        "disk_gb": flavor.root_gb + flavor.ephemeral_gb,
        "vcpus": flavor.vcpus,
        "root_gb": flavor.root_gb,
        "ephemeral_gb": flavor.ephemeral_gb,
        "host": instance.host,
        "node": instance.node,
        "availability_zone": instance.availability_zone,
        "cell_name": "",
        "created_at": str(instance.created_at.replace(tzinfo=UTC)) if instance.created_at else "None",
        "terminated_at": _time(instance.terminated_at),
        "deleted_at": _time(instance.terminated_at if instance.deleted else None),
        "launched_at": _time(instance.launched_at),
        "image_ref_url": f"{images_url.rstrip('/')}/images/{instance.image_ref}",
        "os_type": properties.get("os_type"),
        **kernel_boot.references(properties),
        "state": instance.vm_state.value,
        "state_description": instance.task_state.value if instance.task_state is not None else "",
        "progress": instance.progress or "",
        "access_ip_v4": None,
        "access_ip_v6": None,
        "image_meta": _image_meta(instance.image_ref, image),
        "metadata": instance.metadata,
    }


def image_name(instance: Instance) -> str | None:
    return instance.image.name if instance.image is not None else None


def fault(kind: str, reason: str) -> dict[str, Any]:
    """Nova sends the exception itself, of which only name and text remain on the wire."""
    return {"exception": kind, "message": reason, "code": 500}


def state_change(before: State | None, after: State, now: datetime) -> dict[str, Any]:
    """The payload of compute.instance.update. The audit period is the current month."""
    now = now.astimezone(UTC)
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return {
        "old_state": before[0].value if before is not None else None,
        "state": after[0].value,
        "old_task_state": _task_state(before),
        "new_task_state": _task_state(after),
        "audit_period_beginning": _time(begin),
        "audit_period_ending": _time(now),
    }


def scheduling_failed(instance: Instance, spec: RequestSpec, method: str, reason: str) -> dict[str, Any]:
    """The payload of compute_task.*: a build that failed."""
    legacy = legacy_request_spec(spec)
    return {
        "request_spec": legacy,
        "instance_properties": {**legacy["instance_properties"], "uuid": instance.uuid},
        "instance_id": instance.uuid,
        "state": VmState.ERROR.value,
        "method": method,
        "reason": reason,
    }


def _image_meta(image_ref: str, image: Image | None) -> dict[str, str]:
    if image is None:
        return {"base_image_ref": image_ref}
    meta = {name: getattr(image, name) for name in ("container_format", "disk_format", "min_ram", "min_disk")}
    return {
        **image.properties,
        **{name: str(value) for name, value in meta.items() if value is not None},
        "base_image_ref": image_ref,
    }


def _task_state(state: State | None) -> str | None:
    return state[1].value if state is not None and state[1] is not None else None


def _time(value: datetime | None) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%S.%f") if value is not None else ""
