"""Chooses how a server is deleted: at once, or, with `reclaim_instance_interval`, so that it can be restored for a
while.

    delete -------------------------------------> Terminate
    delete, with an interval --soft_delete------> (SOFT_DELETED, None) --restore--> (ACTIVE, None)
                                                        | the interval is over, or forceDelete
                                                        '-----------------------> Terminate

A delete ends the action in progress. With an interval, only servers that could not be restored are deleted at once:
builds, servers without a host, servers whose disks are being removed, and those that are being deleted for good
already. One that is moved gets 409. As in Nova, a soft-deleted server counts in no quota. It keeps its place,
disks, ports and addresses.
"""

import logging
from functools import partial
from typing import Any

from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.actions.engine.in_progress import LockedAction
from minova.conductor.actions.engine.kind import ActionKind, ActionRequest
from minova.conductor.actions.engine.payload import ActionPayload
from minova.conductor.actions.engine.requests import ServerActions
from minova.conductor.hosts.liveness import Liveness
from minova.conductor.quotas import Quotas
from minova.conductor.servers.finish import announce_hosts, confirm_finished_move, servers_quota
from minova.conductor.servers.locks import require_unlocked
from minova.conductor.servers.terminate import Terminate
from minova.conductor.tasks.unknown_times import begin_unknown
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext, service_context
from minova.contracts.conductor.api.servers import DeleteServersApi
from minova.db import quotas
from minova.db.recovery import unexpected
from minova.db.servers import actions as action_rows
from minova.db.servers import instances, state_changes, unknown_times
from minova.db.servers.instances import LockedInstance
from minova.objects.actions.deletion import RESTORE, SOFT_DELETE
from minova.objects.actions.shelving import SHELVE_OFFLOAD
from minova.objects.servers.failures import Failure
from minova.objects.servers.states import VmState, is_being_built

LOG = logging.getLogger(__name__)
# Seconds between two searches for soft-deleted servers whose time is over.
RECLAIM_INTERVAL = 60.0


class SoftDelete(ActionKind):
    def __init__(self, worker: TaskWorker) -> None:
        self._worker = worker

    def succeeded(self, session: Session, locked: LockedAction, after: VmState) -> dict[str, Any]:
        quotas.give(session, locked.instance.project_id, servers_quota(session, locked.instance))
        return {"terminated_at": self._worker.at(), "soft_deleted_since": self._worker.now()}


class Restore(ActionKind):
    """Takes the quota at its start."""

    takes_quota = True

    def __init__(self, worker: TaskWorker, quotas: Quotas) -> None:
        self._worker = worker
        self._quotas = quotas

    def prepare(self, session: Session, instance: LockedInstance, request: ActionRequest) -> ActionPayload:
        self._quotas.take(session, instance.project_id, servers_quota(session, instance))
        return ActionPayload()

    def succeeded(self, session: Session, locked: LockedAction, after: VmState) -> dict[str, Any]:
        confirm_finished_move(session, locked.instance, self._worker.at(), self._worker.now())
        return {"terminated_at": None, "soft_deleted_since": None}

    def failed(self, session: Session, locked: LockedAction, failure: Failure, *, untouched: bool) -> None:
        quotas.give(session, locked.instance.project_id, servers_quota(session, locked.instance))


class Deletions(DeleteServersApi):
    """`reclaim_instance_interval` is read each time, because it may change at run time."""

    def __init__(
        self, conf: cfg.ConfigOpts, worker: TaskWorker, terminate: Terminate, actions: ServerActions, liveness: Liveness
    ) -> None:
        self._conf = conf
        self._worker = worker
        self._terminate = terminate
        self._actions = actions
        self._liveness = liveness

    def delete_server(
        self, ctx: RequestContext, instance_uuid: str, override_lock: bool = False, force: bool = False
    ) -> None:
        """Raises Conflict, too, if its state or an older service does not allow a soft deletion."""
        if self._conf.reclaim_instance_interval > 0 and not force:
            try:
                self._soft_delete(ctx, instance_uuid, override_lock=override_lock)
                return
            except _NotSoft as reason:
                LOG.info("Instance %s is deleted at once: %s", instance_uuid, reason)
            except errors.PeerTooOld as error:
                raise errors.Conflict(
                    f"Cannot 'delete' instance {instance_uuid} while services of an older release run, as it could not be restored: "
                    f"{error}. The action forceDelete deletes it at once."
                ) from error
        self._terminate.delete(ctx, instance_uuid, override_lock=override_lock)

    def reclaim(self) -> None:
        """Delete the soft-deleted servers whose time is over."""
        interval = float(self._conf.reclaim_instance_interval)
        if interval <= 0:
            return
        begin_unknown(self._worker, unknown_times.OF_SERVERS)
        with self._worker.db.read() as session:
            over = instances.soft_deleted(session, self._worker.now() - interval)
            newer = unexpected.newer_among(session, over)
        for instance_uuid in over:
            if instance_uuid in newer:
                # It was restored after the backup from which this database was made.
                LOG.warning("Instance %s is not reclaimed: its guest is newer than its row", instance_uuid)
                continue
            LOG.info("Instance %s was deleted more than %g s ago, and is reclaimed", instance_uuid, interval)
            try:
                self._terminate.delete(service_context(), instance_uuid, override_lock=True, soft_deleted_for=interval)
            except errors.NotFound:
                continue

    def _soft_delete(self, ctx: RequestContext, instance_uuid: str, *, override_lock: bool) -> None:
        """Raises _NotSoft if the server must be deleted at once. Raises PeerTooOld, Conflict and NotFound."""
        look = partial(self._without_host, ctx, instance_uuid, override_lock, self._liveness.present_hosts())
        if self._worker.run(look):
            return
        try:
            self._actions.start_action(ctx, instance_uuid, SOFT_DELETE.kind, {}, override_lock=override_lock)
        except errors.Conflict:
            # Another request may have begun the soft deletion meanwhile.
            if not self._worker.run(look):
                raise

    def _without_host(
        self, ctx: RequestContext, instance_uuid: str, override_lock: bool, present: frozenset[str], session: Session
    ) -> bool:
        """Returns whether no host need be asked: its host is absent, and then the server is marked as soft-deleted here;
        or the host was asked before. A host that comes back stops the guest. A second delivery of a request changes
        nothing: the server may be restored by now.
        """
        locked = instances.lock(session, [instance_uuid]).get(instance_uuid)
        if action_rows.already_begun(session, [action_rows.ActionKey(instance_uuid, ctx.request_id, SOFT_DELETE.name)]):
            return True
        if locked is None or locked.deleted:
            raise errors.NotFound(f"Server {instance_uuid} could not be found.")
        require_unlocked(locked, override=override_lock)
        if locked.state == (VmState.SOFT_DELETED, None) or locked.state[1] in SOFT_DELETE.progress:
            return True
        vm_state, task_state = locked.state
        for_good = locked.deleting or is_being_built(vm_state) or task_state in SHELVE_OFFLOAD.progress
        if locked.host is None or not locked.launched or for_good:
            raise _NotSoft(f"it is {locked.state[0]}, {locked.state[1]} on host {locked.host}")
        if locked.host in present:
            return False
        self._actions.require_levels(SOFT_DELETE)
        locked = self._actions.required(session, instance_uuid, SOFT_DELETE, override_lock=override_lock)
        at = self._worker.at()
        request = ActionRequest(ctx=ctx, action=SOFT_DELETE, instance_uuid=instance_uuid)
        begun = action_rows.begin(session, [request.record(at)])
        self._mark_soft_deleted(session, locked)
        action_rows.end(session, [*begun.values()], at, event=False)
        return True

    def _mark_soft_deleted(self, session: Session, instance: LockedInstance) -> None:
        """For a locked instance whose host cannot be asked, without an action in progress."""
        at = self._worker.at()
        busy = (instance.state[0], SOFT_DELETE.progress[0])
        state_changes.transition(session, [instance.uuid], [instance.state], busy, updated_at=at)
        after = (VmState.SOFT_DELETED, None)
        since = {"terminated_at": at, "soft_deleted_since": self._worker.now()}
        state_changes.transition(session, [instance.uuid], [busy], after, updated_at=at, **since)
        quotas.give(session, instance.project_id, servers_quota(session, instance))
        announce_hosts(session, {instance.host}, self._worker.now())


def kinds(worker: TaskWorker, quotas: Quotas) -> dict[str, ActionKind]:
    return {SOFT_DELETE.kind: SoftDelete(worker), RESTORE.kind: Restore(worker, quotas)}


class _NotSoft(Exception):
    """The server cannot be soft-deleted. The text says why."""
