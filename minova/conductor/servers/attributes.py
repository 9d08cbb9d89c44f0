"""Changes of a server that need no host, each in one transaction: users change attributes beside its state,
administrators set states.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.notifications.instances import LOCK, UNLOCK, note
from minova.conductor.quotas import Quotas
from minova.conductor.servers.finish import announce_hosts, confirm_finished_move, servers_quota
from minova.conductor.servers.locks import require_unlocked
from minova.conductor.servers.terminate import Abandon
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.servers import ServerAttributesApi
from minova.db import quotas
from minova.db.catalogue import aggregates
from minova.db.models import TaskStep
from minova.db.servers import actions, instances, state_changes, tags, tasks
from minova.db.servers.instances import LockedInstance
from minova.objects.catalogue import disk_config
from minova.objects.catalogue.aggregate import zone_of
from minova.objects.catalogue.quota import UNLIMITED
from minova.objects.servers.failures import Failure
from minova.objects.servers.server_changes import ADMIN, MAX_TAGS, OWNER, ServerChanges
from minova.objects.servers.states import VmState

RESETTABLE = frozenset((VmState.ACTIVE, VmState.ERROR))
# As in Nova: the metadata of a server that is being built, deleted or in error cannot be changed.
METADATA_STATES = frozenset((VmState.ACTIVE, VmState.PAUSED, VmState.SUSPENDED, VmState.STOPPED))
_RESET = Failure(kind="Interrupted", details="an administrator has reset the state of the server meanwhile")


class ServerAttributes(ServerAttributesApi):
    def __init__(self, worker: TaskWorker, quotas: Quotas, abandon: Abandon, default_zone: str) -> None:
        """`abandon` ends an action in progress."""
        self._worker = worker
        self._abandon = abandon
        self._default_zone = default_zone
        self._quotas = quotas

    def update_server(
        self, ctx: RequestContext, instance_uuid: str, changes: ServerChanges, override_lock: bool = False
    ) -> None:
        def work(session: Session) -> None:
            locked = _required(session, instance_uuid)
            if changes.lock is not None:
                self._lock(session, ctx, locked, lock=changes.lock, reason=changes.locked_reason)
                return
            require_unlocked(locked, override=override_lock)
            values = _columns(changes)
            if changes.metadata is not None:
                values["metadata_"] = self._metadata(session, locked, changes)
            if changes.disk_config is not None:
                values["system_metadata"] = disk_config.changed(
                    instances.system_metadata_of(session, instance_uuid), changes.disk_config
                )
            if not isinstance(changes.pinned_zone, msgspec.UnsetType):
                values |= self._pin(session, locked, changes.pinned_zone)
            if _tag(session, locked, changes) or values:
                instances.set_attributes(session, instance_uuid, self._worker.at(), values)

        self._worker.run(work)

    def reset_server_state(self, ctx: RequestContext, instance_uuid: str, vm_state: str) -> None:
        """Set vm_state to active or error, and task_state to None. An action in progress ends; its host's report is
        then stale.

        Raises BadRequest for any other vm_state. Raises Conflict if the server is being built, moved or deleted,
        because that ends by itself; or if it has no host and would become active.
        """
        if vm_state not in RESETTABLE:
            raise errors.BadRequest(f"The state of a server can be reset to active or error, not to {vm_state[:64]}.")
        after = VmState(vm_state)

        def work(session: Session) -> None:
            locked = _required(session, instance_uuid)
            task = tasks.lock(session, [instance_uuid]).get(instance_uuid)
            if (task is not None and task.step != TaskStep.ACTION) or locked.deleting:
                raise errors.Conflict(
                    f"Cannot reset the state of instance {instance_uuid} while it is in vm_state {locked.state[0]}, task_state {locked.state[1]}"
                )
            if locked.state[0] is VmState.SHELVED_OFFLOADED:
                raise errors.Conflict(
                    f"Cannot reset the state of instance {instance_uuid}: it is shelved, and can be unshelved"
                )
            if after is VmState.ACTIVE and locked.host is None:
                raise errors.Conflict(f"Cannot reset instance {instance_uuid} to active: it has no host")
            at = self._worker.at()
            if task is not None:
                self._abandon(session, task, locked.state[1], _RESET)
                tasks.remove(session, [instance_uuid])
            if locked.state == (VmState.SOFT_DELETED, None):
                # A server that is being restored is counted already.
                quotas.add(session, locked.project_id, servers_quota(session, locked))
                instances.set_attributes(
                    session, instance_uuid, at, {"terminated_at": None, "soft_deleted_since": None}
                )
            if locked.state[0] is VmState.RESIZED:
                confirm_finished_move(session, locked, at, self._worker.now())
            state_changes.reset_state(session, locked, (after, None), at)
            self._record(session, ctx, instance_uuid, "reset_state")
            announce_hosts(session, {locked.host}, self._worker.now())

        self._worker.run(work)

    def _lock(
        self, session: Session, ctx: RequestContext, locked: LockedInstance, *, lock: bool, reason: str | None
    ) -> None:
        """An owner's request does not replace a lock. Unlocking needs its own policy, which the API has checked."""
        owner = locked.project_id == ctx.project_id
        if lock and locked.locked_by is not None and owner:
            return
        by = (OWNER if owner else ADMIN) if lock else None
        values = {"locked_by": by, "locked_reason": reason if lock else None}
        instances.set_attributes(session, locked.uuid, self._worker.at(), values)
        self._record(session, ctx, locked.uuid, "lock" if lock else "unlock")
        note(session, LOCK if lock else UNLOCK, [locked.uuid])

    def _pin(self, session: Session, locked: LockedInstance, zone: str | None) -> dict[str, str | None]:
        """Returns the columns that pin the server to its present zone, or to none. Raises Conflict for any other
        zone.
        """
        pinned = instances.pinned_zone(session, locked.uuid)
        if zone in (None, pinned):
            return {"availability_zone": zone}
        if pinned is not None:
            raise errors.Conflict(
                "Cannot change pinned availability zone directly. Unpin first by setting pinned_availability_zone to null."
            )
        zone_of_host = None if locked.host is None else zone_of(locked.host, aggregates.all_of(session).values())
        current = zone_of_host or self._default_zone
        if zone != current:
            raise errors.Conflict(
                f"Server can only be pinned to its current availability zone '{current}', but '{zone}' was requested."
            )
        return {"availability_zone": zone}

    def _metadata(self, session: Session, locked: LockedInstance, changes: ServerChanges) -> dict[str, str]:
        if locked.state[0] not in METADATA_STATES:
            raise errors.Conflict(
                f"Cannot 'update metadata' instance {locked.uuid} while it is in vm_state {locked.state[0]}"
            )
        metadata_changes: Mapping[str, str | None] = changes.metadata or {}
        before = {} if changes.replace_metadata else instances.metadata_of(session, locked.uuid)
        metadata = {key: value for key, value in {**before, **metadata_changes}.items() if value is not None}
        most = self._quotas.limits(session, locked.project_id)["metadata_items"]
        if UNLIMITED != most < len(metadata) and len(metadata) > len(before):
            raise errors.Forbidden(f"Maximum number of metadata items exceeds {most}.")
        return metadata

    def _record(self, session: Session, ctx: RequestContext, instance_uuid: str, action: str) -> None:
        """Record an action that is done at once."""
        at = self._worker.at()
        row: dict[str, Any] = {"instance_uuid": instance_uuid, "action": action, "request_id": ctx.request_id}
        row |= {"user_id": ctx.user_id, "project_id": ctx.project_id, "start_time": at}
        begun = actions.begin(session, [row])
        actions.end(session, [*begun.values()], at, event=False)


def _columns(changes: ServerChanges) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if changes.name is not None:
        values["display_name"] = changes.name
    if changes.hostname is not None:
        values["hostname"] = changes.hostname
    if not isinstance(changes.description, msgspec.UnsetType):
        values["description"] = changes.description
    for column in ("access_ip_v4", "access_ip_v6"):
        address: str | None = getattr(changes, column)
        if address is not None:
            values[column] = address or None
    return values


def _tag(session: Session, locked: LockedInstance, changes: ServerChanges) -> bool:
    """Changes the tags. Returns whether they differ from before.

    Raises Conflict if the state does not allow it, BadRequest for too many tags, NotFound for the removal of a missing
    tag.
    """
    requested = changes.tags if changes.tags is not None else changes.add_tag or changes.remove_tag
    if requested is None:
        return False
    if locked.state[0] not in METADATA_STATES:
        raise errors.Conflict(f"Cannot 'update tags' instance {locked.uuid} while it is in vm_state {locked.state[0]}")
    before = tags.of_instances(session, [locked.uuid]).get(locked.uuid, ())
    after = set(before if changes.tags is None else changes.tags)
    if changes.remove_tag is not None:
        if changes.remove_tag not in after:
            raise errors.NotFound(f"Server {locked.uuid} has no tag '{changes.remove_tag}'")
        after.remove(changes.remove_tag)
    if changes.add_tag is not None:
        after.add(changes.add_tag)
    if len(after) > MAX_TAGS:
        raise errors.BadRequest(f"The number of tags exceeded the per-server limit {MAX_TAGS}")
    if after != set(before):
        tags.replace(session, locked.uuid, sorted(after))
    return after != set(before)


def _required(session: Session, instance_uuid: str) -> LockedInstance:
    locked = instances.lock(session, [instance_uuid]).get(instance_uuid)
    if locked is None or locked.deleted:
        raise errors.NotFound(f"Instance {instance_uuid} could not be found.")
    return locked
