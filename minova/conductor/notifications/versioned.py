"""Payloads of Nova's versioned notifications of instances, as far as minova has the data. Pure.

Lists and times have the format of minova's answers. minova has no volumes and shares, so these lists are empty.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from minova.context import RequestContext
from minova.objects.catalogue import disk_config, kernel_boot
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.key_pair import KeyPair
from minova.objects.network.vif import Vif, tap_name
from minova.objects.requests.request_spec import RequestSpec
from minova.objects.requests.versioned_payloads import Payload, exception, flavor, payload, request_spec, time_text
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState, State, VmState

# Nova's names for the hypervisor's states.
_POWER = {
    PowerState.NOSTATE: "pending",
    PowerState.RUNNING: "running",
    PowerState.PAUSED: "paused",
    PowerState.SHUTDOWN: "shutdown",
    PowerState.CRASHED: "crashed",
    PowerState.SUSPENDED: "suspended",
}
# Nova's instance name template, applied to a uuid.
_NAME = "instance-{}"


class Details(NamedTuple):
    """Data that an Instance does not contain.

    `image_id`: the image that an action makes or uses.
    `initiator`: user and project of the request in progress, which a host's report does not contain.
    `new_flavor`: the size that a move is about to give the instance.
    """

    description: str | None = None
    locked: bool = False
    locked_reason: str | None = None
    tags: tuple[str, ...] = ()
    key_pair: KeyPair | None = None
    image_id: str | None = None
    initiator: tuple[str, str] | None = None
    new_flavor: Flavor | None = None


def instance_action(
    what: str, instance: Instance, details: Details, ctx: RequestContext, fault: tuple[str, str] | None = None
) -> Payload:
    """The payload of `instance.ACTION.PHASE`. `fault`: the kind and text of a failure."""
    data = {**_instance(instance, details, ctx), "fault": exception(*fault) if fault is not None else None}
    action = what.partition(".")[0]
    if action == "create":
        more = {
            "keypairs": [_key_pair(details.key_pair)] if details.key_pair is not None else [],
            "tags": [*details.tags],
            "trusted_image_certificates": None,
            "instance_name": _NAME.format(instance.uuid),
        }
        return payload("InstanceCreatePayload", "1.13", data | more)
    if action == "rebuild":
        return payload("InstanceActionRebuildPayload", "1.10", data | {"trusted_image_certificates": None})
    if action == "rescue":
        return payload(
            "InstanceActionRescuePayload", "1.4", data | {"rescue_image_ref": details.image_id or instance.image_ref}
        )
    if action == "resize_prep":
        new = flavor(details.new_flavor or instance.flavor)
        return payload("InstanceActionResizePrepPayload", "1.4", data | {"new_flavor": new})
    if action == "snapshot":
        return payload("InstanceActionSnapshotPayload", "1.10", data | {"snapshot_image_id": details.image_id})
    return payload("InstanceActionPayload", "1.9", data)


def instance_update(
    instance: Instance, details: Details, ctx: RequestContext, change: tuple[State | None, State], now: datetime
) -> Payload:
    """The payload of `instance.update`. The audit period is the current month; `now` is UTC."""
    before, after = change
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    states = {
        "old_state": before[0].value if before is not None else None,
        "state": after[0].value,
        "old_task_state": _task_state(before),
        "new_task_state": _task_state(after),
    }
    period = {"audit_period_beginning": time_text(begin), "audit_period_ending": time_text(now)}
    more = {
        "audit_period": payload("AuditPeriodPayload", "1.0", period),
        "state_update": payload("InstanceStateUpdatePayload", "1.0", states),
        "old_display_name": None,
        "tags": [*details.tags],
    }
    return payload("InstanceUpdatePayload", "2.1", _instance(instance, details, ctx) | more)


def scheduling_failed(instance: Instance, spec: RequestSpec, reason: str) -> Payload:
    """The payload of `compute_task.build_instances.error`."""
    data = {
        "instance_uuid": instance.uuid,
        "reason": exception("NoValidHost", reason),
        "request_spec": request_spec(spec, instance.uuid),
        "state": VmState.ERROR.value,
    }
    return payload("ComputeTaskPayload", "1.0", data)


def _instance(instance: Instance, details: Details, ctx: RequestContext) -> dict[str, Any]:
    properties = instance.image.properties if instance.image is not None else {}
    user_id, project_id = (ctx.user_id, ctx.project_id) if ctx.user_id else details.initiator or ("", "")
    return {
        "uuid": instance.uuid,
        "user_id": instance.user_id,
        "tenant_id": instance.project_id,
        "reservation_id": instance.reservation_id,
        "display_name": instance.display_name,
        "display_description": details.description,
        "host_name": instance.hostname,
        "host": instance.host,
        "node": instance.node,
        "os_type": properties.get("os_type"),
        "architecture": properties.get("hw_architecture") or properties.get("architecture"),
        "availability_zone": instance.availability_zone,
        "flavor": flavor(instance.flavor),
        "image_uuid": instance.image_ref,
        "key_name": instance.key_name,
        **kernel_boot.references(properties),
        "created_at": time_text(instance.created_at),
        "launched_at": time_text(instance.launched_at),
        "terminated_at": time_text(instance.terminated_at),
        "deleted_at": time_text(instance.terminated_at if instance.deleted else None),
        "updated_at": time_text(instance.updated_at),
        "state": instance.vm_state.value,
        "power_state": _POWER[instance.power_state],
        "task_state": instance.task_state.value if instance.task_state is not None else None,
        "progress": instance.progress,
        "ip_addresses": [*_addresses(instance.network_info)],
        "block_devices": [],
        "metadata": instance.metadata,
        "locked": details.locked,
        "locked_reason": details.locked_reason,
        "auto_disk_config": disk_config.of_metadata(instance.system_metadata),
        # As in Nova: work that a service starts by itself has no user.
        "request_id": ctx.request_id if user_id and project_id else None,
        "action_initiator_user": user_id or None,
        "action_initiator_project": project_id or None,
        "shares": [],
    }


def _addresses(vifs: Iterable[Vif]) -> Iterable[Payload]:
    for vif in vifs:
        for address in vif.addresses:
            data: Payload = {
                "address": address.ip_address,
                "version": 6 if ":" in address.ip_address else 4,
                "label": vif.network_name,
                "mac": vif.mac_address,
                "port_uuid": vif.port_id,
                "device_name": tap_name(vif.port_id),
                "meta": {},
            }
            yield payload("IpPayload", "1.0", data)


def _key_pair(key_pair: KeyPair) -> Payload:
    names = ("user_id", "name", "fingerprint", "public_key", "type")
    return payload("KeypairPayload", "1.0", {name: getattr(key_pair, name) for name in names})


def _task_state(state: State | None) -> str | None:
    return state[1].value if state is not None and state[1] is not None else None
