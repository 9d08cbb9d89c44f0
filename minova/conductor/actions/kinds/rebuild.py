"""Rebuilds: the request changes the server's image and attributes; they are restored if nothing has happened to its
guest.

request --> the scheduler checks the host with the new image (a refusal ends it)
        --> one transaction: new columns, task with the old ones
host: image --begin_action again--> (REBUILD_SPAWNING) --> new disks --> renamed
      a failure before REBUILD_SPAWNING: the old columns; before the renaming: the old columns and secrets, and ERROR; later: ERROR
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from minova import errors
from minova.codecs import Decoder
from minova.conductor.actions.engine.in_progress import LockedAction
from minova.conductor.actions.engine.kind import ActionKind, ActionRequest
from minova.conductor.actions.engine.payload import ActionPayload, payload_of
from minova.conductor.compute_messages import zones_of_hosts
from minova.conductor.quotas import Quotas
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.scheduler import SchedulerApi
from minova.db.models import Instance, Task
from minova.db.servers import guest_secrets, instances
from minova.db.servers.instances import LockedInstance
from minova.hardware.demands import traits_of_guest
from minova.hardware.guest.features import FlavorAndImage
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.actions.rebuild import REBUILD, RebuiltServer
from minova.objects.catalogue import disk_config, kernel_boot
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.quota import UNLIMITED
from minova.objects.requests.request_spec import PlacementFilter, RequestSpec
from minova.objects.servers import chosen_hardware
from minova.objects.servers import instance as objects
from minova.objects.servers.states import TaskState, VmState

_REBUILT, _IMAGE = Decoder(RebuiltServer), Decoder(Image)
# Columns that a request may change, beside the image.
COLUMNS = frozenset(
    {
        "display_name",
        "hostname",
        "description",
        "metadata_",
        "user_data",
        "key_name",
        "key_data",
        "key_type",
        "config_drive",
        "access_ip_v4",
        "access_ip_v6",
        # A key of `system_metadata`.
        disk_config.KEY,
    }
)


class Rebuild(ActionKind):
    """`scheduler`: a client with a short time-out."""

    takes_quota = True

    def __init__(self, worker: TaskWorker, quotas: Quotas, scheduler: SchedulerApi) -> None:
        self._worker = worker
        self._quotas = quotas
        self._scheduler = scheduler

    def parse(self, arguments: Mapping[str, Any]) -> RebuiltServer:
        try:
            rebuilt = _REBUILT.from_builtins(dict(arguments))
        except msgspec.ValidationError as error:
            raise errors.BadRequest(f"rebuild: {error}") from None
        unknown = rebuilt.changes.keys() - COLUMNS
        if unknown:
            raise errors.BadRequest(f"rebuild: {', '.join(sorted(unknown))} cannot be changed")
        return rebuilt

    def preflight(self, request: ActionRequest) -> Callable[[], None] | None:
        return lambda: self._require_fit(request.ctx, request.instance_uuid, request.arguments.image)

    def prepare(self, session: Session, instance: LockedInstance, request: ActionRequest) -> ActionPayload:
        """Changes the columns of the instance. Raises Forbidden if it would have too many items of metadata, Conflict if too many
        rebuilds have failed (`guest_secrets.require_place`).
        """
        guest_secrets.require_place(session, instance.uuid)
        rebuilt: RebuiltServer = request.arguments
        metadata = rebuilt.changes.get("metadata_")
        if metadata is not None:
            most = self._quotas.limits(session, instance.project_id)["metadata_items"]
            if UNLIMITED != most < len(metadata):
                raise errors.Forbidden(f"Maximum number of metadata items exceeds {most}.")
        changes = _with_disk_config(session, instance.uuid, rebuilt.changes)
        of_image = {"image_ref": rebuilt.image.id, "image": rebuilt.image, **kernel_boot.columns_of(rebuilt.image)}
        names = [*of_image, *sorted(changes.keys() - {"system_metadata"})]
        row = session.execute(
            select(*(getattr(Instance, name) for name in names)).where(Instance.uuid == instance.uuid)
        ).one()
        before: dict[str, Any] = msgspec.to_builtins(dict(zip(names, row, strict=True)))
        if "system_metadata" in changes:
            # Only this key is kept, because other keys may change before `undo`.
            before[disk_config.KEY] = disk_config.of_metadata(instances.system_metadata_of(session, instance.uuid))
        instances.set_attributes(session, instance.uuid, self._worker.at(), of_image | changes)
        arguments = HostArguments(
            admin_password=rebuilt.admin_password,
            injected_files=rebuilt.files,
            availability_zone=zones_of_hosts(session).get(instance.host or "", ""),
        )
        return ActionPayload(arguments=arguments, before=before)

    def changes(self, session: Session, locked: LockedAction) -> None:
        """A host that has read the former secrets must not open the new disks."""
        guest_secrets.set_aside(session, locked.instance.uuid)

    def succeeded(self, session: Session, locked: LockedAction, after: VmState) -> dict[str, Any]:
        guest_secrets.remove_former(session, locked.instance.uuid)
        return {"launched_at": self._worker.at(), "system_metadata": _without_choice(session, locked.instance.uuid)}

    def undo(self, session: Session, task: Task, task_state: TaskState | None, *, kept_disks: bool = False) -> None:
        """Restores the columns, unless the disks may be changed already, or the server is being deleted. The image of the row must be
        that of the disks: a move puts them on top of it.
        """
        before, changed = payload_of(task).before, REBUILD.has_changed(task_state)
        disks_are_old = kept_disks and changed is True
        if disks_are_old:
            guest_secrets.put_back(session, task.instance_uuid)
        if not before or (changed is not False and not disks_are_old):
            # The guest may be defined anew already.
            anew = {"system_metadata": _without_choice(session, task.instance_uuid)}
            instances.set_attributes(session, task.instance_uuid, self._worker.at(), anew)
            return
        image = before.get("image")
        values = {**before, "image": None if image is None else _IMAGE.from_builtins(image)}
        chosen = values.pop(disk_config.KEY, None)
        if chosen is not None:
            now = instances.system_metadata_of(session, task.instance_uuid)
            values["system_metadata"] = disk_config.changed(now, chosen)
        instances.set_attributes(session, task.instance_uuid, self._worker.at(), values)

    def _require_fit(self, ctx: RequestContext, instance_uuid: str, image: Image) -> None:
        """Raises BadRequest with the reason if the server's host cannot run the image. A missing server or host is
        refused elsewhere.
        """
        with self._worker.db.read() as session:
            instance = instances.by_uuids(session, [instance_uuid]).get(instance_uuid)
        if instance is None or instance.host is None or _is_same(instance, image):
            return
        spec = spec_of(instance, image)
        answer = self._scheduler.preview_destinations(ctx, spec=spec, instance_uuids=(instance_uuid,))
        if not answer.selections:
            reason = answer.diagnosis.error or "the host of the server does not pass"
            raise errors.BadRequest(
                f"No valid host was found. The server stays on its host, and its new image: {reason}"
            )


def _is_same(instance: objects.Instance, image: Image) -> bool:
    """Whether the host has built the server from this image with these properties, which may change under the same id."""
    former = instance.image
    return instance.image_ref == image.id and (former is None or former.properties == image.properties)


def kinds(worker: TaskWorker, quotas: Quotas, scheduler: SchedulerApi) -> dict[str, ActionKind]:
    return {REBUILD.kind: Rebuild(worker, quotas, scheduler)}


def spec_of(instance: objects.Instance, image: Image) -> RequestSpec:
    """Returns a spec for the host that the instance is on. As in Nova only the image counts, because the instance has
    its resources already. The host must offer the devices of the new guest.
    """
    no_resources = {"vcpus": 0, "memory_mb": 0, "root_gb": 0, "ephemeral_gb": 0, "swap": 0, "extra_specs": {}}
    return RequestSpec(
        flavor=msgspec.structs.replace(instance.flavor, **no_resources),
        image=image,
        instance_uuid=instance.uuid,
        project_id=instance.project_id,
        user_id=instance.user_id,
        force_hosts=(instance.host or "",),
        force_nodes=(instance.node or "",),
        scheduler_hints={"_nova_check_type": ["rebuild"]},
        placement=PlacementFilter(required_traits=traits_of_guest(FlavorAndImage(instance.flavor, image))),
    )


def _without_choice(session: Session, instance_uuid: str) -> dict[str, str]:
    """Returns the column without the hardware that was chosen for the former guest."""
    return chosen_hardware.without_choice(instances.system_metadata_of(session, instance_uuid))


def _with_disk_config(session: Session, instance_uuid: str, changes: dict[str, Any]) -> dict[str, Any]:
    """Returns the changes with the whole column in place of its changed key."""
    if disk_config.KEY not in changes:
        return changes
    system_metadata = instances.system_metadata_of(session, instance_uuid)
    columns = {name: value for name, value in changes.items() if name != disk_config.KEY}
    return columns | {"system_metadata": disk_config.changed(system_metadata, changes[disk_config.KEY])}
