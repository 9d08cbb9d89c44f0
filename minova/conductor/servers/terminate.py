"""Deletion: the row first records the request, then the host is asked again and again until it has reported."""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.backoff import Backoff
from minova.codecs import Decoder
from minova.conductor.compute_messages import ComputeClient
from minova.conductor.hosts.liveness import Liveness
from minova.conductor.network.interface_notifier import InterfaceNotifier
from minova.conductor.servers.finish import finish_delete, servers_quota
from minova.conductor.servers.locks import require_unlocked
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.computes.builds import RemovalReportsApi
from minova.db import quotas
from minova.db.models import Task, TaskStep
from minova.db.servers import actions, instances, migrations, request_specs, state_changes, tasks
from minova.db.servers.instances import LockedInstance
from minova.objects.actions.deletion import RESTORE
from minova.objects.servers.failures import Failure, text_of
from minova.objects.servers.states import TaskState, VmState

LOG = logging.getLogger(__name__)

# Seconds until a host that has not reported is asked for the second time; then twice as long each time, up to the
# limit.
BACKOFF = Backoff(first=15.0, longest=120.0)
FAILED = "DeleteFailed"
# Ends the records of a task whose instance is in this task state, and undoes what its action has changed.
Abandon = Callable[[Session, Task, TaskState | None, Failure], None]
_RESTORING = {(state, step) for state in RESTORE.vm_states for step in RESTORE.progress}


class Removal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A delete task's payload: how often the host was asked, and why it could not delete the server the last time.

    `asks` 0: the task was made by an older release.
    `others`: further hosts, each with its node, that have something of a server that moves; they are asked in turn.
    `owing`: hosts that were asked in vain, or were absent.
    """

    asks: int = 0
    failed: int = 0
    reason: str = ""
    kind: str = ""
    others: tuple[tuple[str, str | None], ...] = ()
    owing: tuple[str, ...] = ()


_REMOVAL = Decoder(Removal)


class HostToAsk(NamedTuple):
    """The host to ask, and which of its nodes has the server."""

    host: str
    node: str | None


class Terminate(RemovalReportsApi):
    def __init__(
        self,
        conf: cfg.ConfigOpts,
        worker: TaskWorker,
        computes: ComputeClient,
        liveness: Liveness,
        hints: InterfaceNotifier,
        abandon: Abandon,
    ) -> None:
        """`abandon` ends an action in progress; the deletion takes its task over."""
        self._worker = worker
        self._abandon = abandon
        self._hints = hints
        self._computes = computes
        self._liveness = liveness
        self._timeout = float(conf.conductor.delete_timeout)

    def delete(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        *,
        override_lock: bool = False,
        soft_deleted_for: float | None = None,
    ) -> None:
        """Delete the server. If its host is absent, the deletion is completed at once, and the domain is later an
        unexpected one.

        `soft_deleted_for`: delete it only if it has been soft-deleted, and idle, for more than this number of seconds.

        Raises NotFound if there is no such server, Conflict if it is locked.
        """
        present = self._liveness.present_hosts()
        groups = self._hints.groups_of(instance_uuid)

        def work(session: Session) -> HostToAsk | None:
            locked = instances.lock(session, [instance_uuid]).get(instance_uuid)
            if locked is None or locked.deleted:
                raise errors.NotFound(f"Server {instance_uuid} could not be found.")
            if soft_deleted_for is not None and not self._is_over(session, locked, soft_deleted_for):
                LOG.info("Instance %s is not reclaimed: it is %s, %s", instance_uuid, *locked.state)
                return None
            return self._begin(session, ctx, locked, present, override_lock)

        ask = self._worker.run(work)
        if ask is None:
            self._hints.members_changed(groups)
        if ask is not None:
            self._computes.terminate(ctx, ask.host, instance_uuid, ask.node)

    def begin_removal(self, ctx: RequestContext, instance_uuid: str, host: str) -> None:
        """Locks the instance only if it seems not to be deleted: what was read may be old."""
        with self._worker.db.read() as session:
            if instances.is_removed(session, instance_uuid):
                return

        def work(session: Session) -> bool:
            locked = instances.lock(session, [instance_uuid]).get(instance_uuid)
            return locked is not None and (locked.deleted or locked.deleting)

        if not self._worker.run(work):
            raise errors.StaleAttempt(f"Instance {instance_uuid} is not being deleted, and stays on {host}")

    def instance_deleted(self, ctx: RequestContext, instance_uuid: str, host: str) -> None:
        """Idempotent. A report of a host that was not asked changes nothing. One that comes after the deletion was given up
        completes it, if nothing else has happened to the server since.
        """
        present = self._liveness.present_hosts()

        def work(session: Session) -> HostToAsk | None:
            locked = instances.lock(session, [instance_uuid]).get(instance_uuid)
            if locked is None or locked.deleted:
                return None
            task = tasks.lock(session, [instance_uuid]).get(instance_uuid)
            if task is None:
                self._finish_late(session, locked, host)
            elif locked.deleting and task.host == host:
                return self._next(session, locked, task, present, removed=True)
            return None

        groups = self._hints.groups_of(instance_uuid)
        ask = self._worker.run(work)
        if ask is not None:
            self._computes.terminate(ctx, ask.host, instance_uuid, ask.node)
        self._hints.members_changed(groups)

    def _next(
        self, session: Session, locked: LockedInstance, task: Task, present: frozenset[str], *, removed: bool
    ) -> HostToAsk | None:
        """Returns the next host that has something of the server. Without one the deletion is completed: a host that has not
        `removed` what it has is asked again later, because the server is deleted.
        """
        removal = removal_of(task)
        other_places = [other for other in removal.others if other[0] in present]
        absent = (other[0] for other in removal.others if other[0] not in present)
        owing = (*removal.owing, *absent, *(() if removed or task.host is None else (task.host,)))
        if not other_places:
            self._finish(session, locked, task, owing)
            return None
        (host, node), *others = other_places
        asked_first = msgspec.to_builtins(Removal(asks=1, others=tuple(others), owing=owing))
        next_ask = {"host": host, "node": node, "payload": asked_first}
        tasks.change(session, [(task, next_ask)], BACKOFF.first, self._worker.now(), deadline_in=self._timeout)
        return HostToAsk(host, node)

    def delete_failed(self, ctx: RequestContext, instance_uuid: str, host: str, reason: str, kind: str = "") -> None:
        """Show users why their server still exists. The host is asked again after the usual pause.

        The report of another host, or a second report of the same try with the same reason, changes nothing.
        """
        failure = Failure(kind=kind, details=reason)

        def work(session: Session) -> None:
            locked = instances.lock(session, [instance_uuid]).get(instance_uuid)
            task = tasks.lock(session, [instance_uuid]).get(instance_uuid)
            if locked is None or task is None or (task.step, task.host) != (TaskStep.DELETE, host):
                return
            removal, at = removal_of(task), self._worker.at()
            if (removal.failed, removal.reason) == (removal.asks, reason):
                return
            noted = msgspec.structs.replace(removal, failed=removal.asks, reason=reason, kind=kind)
            tasks.set_payload(session, task, msgspec.to_builtins(noted))
            if task.action_id is not None:
                actions.add_failed_event(session, task.action_id, actions.DELETE_EVENT, host, at, failure)
            if reason != removal.reason:
                details = f"Host {host} could not remove the instance yet: {reason}"
                text = f"The host could not remove the server yet. {failure.message}"
                actions.add_faults(session, [instance_uuid], at, Failure(kind=FAILED, details=details, text=text))

        LOG.warning("Instance %s is not removed by host %s yet: %s", instance_uuid, host, reason)
        self._worker.run(work)

    def resume(self, ctx: RequestContext, instance_uuid: str, epoch: int) -> None:
        """Ask the host again. If it is absent, complete the deletion; after `delete_timeout`, set ERROR."""
        present = self._liveness.present_hosts()

        def work(session: Session) -> HostToAsk | None:
            locked = instances.lock(session, [instance_uuid]).get(instance_uuid)
            task = tasks.lock(session, [instance_uuid]).get(instance_uuid)
            if locked is None or task is None or (task.step, task.epoch) != (TaskStep.DELETE, epoch):
                return None
            if task.host is None or task.host not in present:
                LOG.info("Instance %s is deleted without its host %s, which is absent", instance_uuid, task.host)
                return self._next(session, locked, task, present, removed=False)
            return self._again(session, locked, task, present)

        groups = self._hints.groups_of(instance_uuid)
        ask = self._worker.run(work)
        if ask is None:
            self._hints.members_changed(groups)
        else:
            self._computes.terminate(ctx, ask.host, instance_uuid, ask.node)

    def _again(self, session: Session, locked: LockedInstance, task: Task, present: frozenset[str]) -> HostToAsk | None:
        removal, now = removal_of(task), self._worker.now()
        if removal.asks and tasks.past_deadline(session, [task.instance_uuid], now):
            if locked.host not in {None, task.host}:
                # The row's host has removed its copy, or is absent. The row cannot name the other host of the move, whose copy
                # is of another attempt and size.
                LOG.error(
                    "Host %s could not remove its copy of instance %s: %s", task.host, locked.uuid, removal.reason
                )
                return self._next(session, locked, task, present, removed=False)
            self._give_up(session, locked, task, removal)
            return None
        counted = msgspec.structs.replace(removal, asks=removal.asks + 1)
        timeout = None if removal.asks else self._timeout
        payload = {"payload": msgspec.to_builtins(counted)}
        tasks.change(session, [(task, payload)], BACKOFF.pause(counted.asks), now, deadline_in=timeout)
        return HostToAsk(str(task.host), task.node)

    def _give_up(self, session: Session, locked: LockedInstance, task: Task, removal: Removal) -> None:
        """Set ERROR, with the host that may still have the domain, so that its deletion can be requested again."""
        uuid, at = task.instance_uuid, self._worker.at()
        why = removal.reason or "the host has not answered"
        details = f"Host {task.host} could not remove the instance within {self._timeout:g} s: {why}"
        text = f"The host could not remove the server within {self._timeout:g} s. "
        text += text_of(removal.kind) if removal.reason else text_of("HostDown")
        failure = Failure(kind=FAILED, details=details, text=text)
        LOG.error("Instance %s goes to ERROR: %s", uuid, details)
        error = (VmState.ERROR, None)
        state_changes.transition(session, [uuid], [locked.state], error, host=task.host, node=task.node, updated_at=at)
        if locked.state[0] is VmState.SOFT_DELETED:
            quotas.add(session, locked.project_id, servers_quota(session, locked))
        if task.action_id is not None:
            actions.end(session, [task.action_id], at, error=failure)
        actions.add_faults(session, [uuid], at, failure)
        tasks.remove(session, [uuid])

    def _finish_late(self, session: Session, locked: LockedInstance, host: str) -> None:
        """The host has removed the server after its deletion was given up: the deletion has succeeded."""
        if (locked.state, locked.host) != ((VmState.ERROR, None), host):
            return
        action_id = actions.last_failed_deletion(session, locked.uuid)
        if action_id is None:
            return
        LOG.info("Host %s has removed instance %s, whose deletion was given up", host, locked.uuid)
        at, now = self._worker.at(), self._worker.now()
        deleting = (VmState.ERROR, TaskState.DELETING)
        state_changes.transition(session, [locked.uuid], [locked.state], deleting, updated_at=at)
        actions.reopen(session, action_id)
        owing = tuple(place for place, _ in _other_places(session, locked.uuid, host))
        finish_delete(session, locked, 0, action_id, at, now, owing=owing)

    def _is_over(self, session: Session, locked: LockedInstance, seconds: float) -> bool:
        """Returns whether the time in which this locked server could be restored is over."""
        return bool(instances.soft_deleted(session, self._worker.now() - seconds, locked.uuid))

    def _begin(
        self,
        session: Session,
        ctx: RequestContext,
        locked: LockedInstance,
        present: frozenset[str],
        override_lock: bool,
    ) -> HostToAsk | None:
        instance_uuid = locked.uuid
        task = tasks.lock(session, [instance_uuid]).get(instance_uuid)
        if locked.deleting and task is not None:
            return HostToAsk(task.host, task.node) if task.host is not None else None
        require_unlocked(locked, override=override_lock)
        at, now = self._worker.at(), self._worker.now()
        deleting = (locked.state[0], TaskState.DELETING)
        if not locked.deleting:
            # From now on every report on a build is stale.
            state_changes.transition(session, [instance_uuid], [locked.state], deleting, updated_at=at)
        action_row = {
            "instance_uuid": instance_uuid,
            "action": "delete",
            "request_id": ctx.request_id,
            "user_id": ctx.user_id,
            "project_id": ctx.project_id,
            "start_time": at,
        }
        action_id = actions.begin(session, [action_row])[instance_uuid]
        if task is not None:
            self._interrupt(session, locked, task)
        host, node = locked.host, locked.node
        if host is None and task is not None:
            host, node = task.host, task.node
        places = ((host, node), *_other_places(session, instance_uuid, host))
        owing = tuple(place[0] for place in places if place[0] is not None and place[0] not in present)
        if owing:
            LOG.info("Instance %s is deleted without %s, which are absent", instance_uuid, ", ".join(owing))
        present_places = [(at, on) for at, on in places if at is not None and at in present]
        host, node = present_places[0] if present_places else (None, None)
        if host is None:
            claim_number = task.claim_number if task is not None else 0
            finish_delete(session, locked, claim_number, action_id, at, now, owing=owing)
            return None
        turned: dict[str, Any] = {
            "kind": "delete",
            "step": TaskStep.DELETE.value,
            "host": host,
            "node": node,
            "action_id": action_id,
            "request_id": ctx.request_id,
            "worker_id": self._worker.id,
            "payload": msgspec.to_builtins(Removal(asks=1, others=tuple(present_places[1:]), owing=owing)),
        }
        if task is not None:
            change = (task, turned | {"epoch": task.epoch + 1})
            tasks.change(session, [change], BACKOFF.first, now, deadline_in=self._timeout)
        else:
            row = {"reservation_id": "", "instance_uuid": instance_uuid, "epoch": 1, "attempt": 0, "claim_number": 0}
            row |= {"wake_at": BACKOFF.first, "deadline": self._timeout, "created_at": at}
            tasks.insert_rows(session, [turned | row], now)
        return HostToAsk(host, node)

    def _interrupt(self, session: Session, locked: LockedInstance, task: Task) -> None:
        self._abandon(session, task, TaskState.DELETING, _interrupted(task))
        if locked.unshelving or (locked.evacuating and task.kind == "build"):
            request_specs.remove(session, [task.reservation_id])
        if locked.state in _RESTORING:
            # The restore has taken the quota at its start.
            quotas.give(session, locked.project_id, servers_quota(session, locked))

    def _finish(self, session: Session, locked: LockedInstance, task: Task, owing: tuple[str, ...]) -> None:
        at, now = self._worker.at(), self._worker.now()
        finish_delete(session, locked, task.claim_number, task.action_id, at, now, owing=owing)


def _other_places(session: Session, instance_uuid: str, host: str | None) -> tuple[tuple[str, str | None], ...]:
    """Returns the other hosts, each with its node, that have something of a server that moves or may still go back."""
    places = {
        place.host: place.node
        for migration in migrations.lock_open(session, instance_uuid)
        for place in (migration.source, migration.dest)
        if place.host is not None
    }
    return tuple(sorted((other, node) for other, node in places.items() if other != host))


def _interrupted(task: Task) -> Failure:
    """Returns the failure of an action that a deletion has interrupted."""
    text = "Deleted while it was built" if task.kind == "build" else f"Deleted before its {task.kind} was done"
    return Failure(kind="Interrupted", details=text, text=text)


def removal_of(task: Task) -> Removal:
    return _REMOVAL.from_builtins(task.payload)
