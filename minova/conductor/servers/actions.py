"""Server actions (`objects/server_actions.py`): the row says first what is wanted, then the host is asked until it has reported.

(active, None) --stop--> (active, powering-off), task(stop) --message--> compute
                             |  begin_action, action_succeeded ---> (stopped, None)
                             |  action_failed, host down or too old, too slow ---> (active, None) with the reason
                             |  delete ---> (active, deleting): the action has ended with an error
                             |  a shelve, with shelved_offload_time 0: its offload begins in the same transaction
                             '  a reboot HARD and a soft delete end those that they may interrupt, likewise; any action ends one without task states

The id of the action's record is the fence: a message or a report of an action that is no longer in progress changes nothing.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import msgspec
from oslo_config import cfg
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.catalogue.images import Images
from minova.conductor.compute_messages import ComputeClient
from minova.conductor.hosts.liveness import Liveness
from minova.conductor.network.attachments import Attachments, interface_in
from minova.conductor.network.ports import TRIES as MAC_TRIES
from minova.conductor.notifications.instances import note, note_image
from minova.conductor.quotas import Quotas, refused
from minova.conductor.servers import rebuild
from minova.conductor.servers.action_images import (
    PAYLOAD,
    ActionPayload,
    WaitingDetachment,
    discard_image,
    image_id_of,
    image_in,
    records_of,
    rotate_backups,
    shelved_columns,
)
from minova.conductor.servers.finish import announce_hosts, servers_quota
from minova.conductor.servers.locks import require_unlocked
from minova.conductor.tasks.group_commit import GroupCommit
from minova.conductor.tasks.pools import Kind
from minova.conductor.tasks.worker import Worker
from minova.context import RequestContext
from minova.contracts.base import numbers
from minova.db import quotas
from minova.db.catalogue import images
from minova.db.models import Task, TaskStep
from minova.db.networks import vifs
from minova.db.quotas import OverQuota
from minova.db.servers import actions, instances, tasks
from minova.db.servers.instances import LockedInstance
from minova.log import bound_context
from minova.objects.failures import Failure, kind_of
from minova.objects.instance import Instance
from minova.objects.power_rules import OFF, STOPS_BY_ITSELF
from minova.objects.rebuild import RebuiltServer
from minova.objects.server_actions import (
    ATTACH_INTERFACE,
    BY_KIND,
    DEFINE_ANEW,
    DETACH_INTERFACE,
    REBOOT_HARD,
    REBOOT_SOFT,
    REBUILD,
    RESTORE,
    SECRET_TIMEOUT,
    SHELVE,
    SHELVE_OFFLOAD,
    SOFT_DELETE,
    ServerAction,
)
from minova.objects.states import RESOURCE_FREE, PowerState, State, TaskState, VmState
from minova.placement.allocations import claims

LOG = logging.getLogger(__name__)

# Seconds until a host that has not reported is asked for the second time; then twice as long each time, up to the limit. So a
# host that was restarted hears of the action within half a minute.
FIRST_PAUSE, LONGEST_PAUSE = 15.0, 30.0
FAILED = "ServerActionFailed"
_TERMINATED = frozenset({SOFT_DELETE.kind, RESTORE.kind})
_OF_INTERFACES = frozenset({ATTACH_INTERFACE.kind, DETACH_INTERFACE.kind})
# Nova notifies of the failures of these alone.
_ERRORS_NOTIFIED = (REBOOT_SOFT, REBOOT_HARD, REBUILD, ATTACH_INTERFACE)
_RESULT_UNKNOWN = Failure(
    kind="ResultUnknown", details="the host was interrupted and does not know whether it was done"
)


class ActionMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent to the host of an instance."""

    action: ServerAction
    action_id: int
    host: str
    instance: Instance
    arguments: Mapping[str, Any] = {}


class ActionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of an instance. `down_hosts`: hosts that cannot be asked now.

    `action_id`: of its record, if there is one. `carried`, `waiting`: as `ActionPayload` has them.
    """

    ctx: RequestContext
    action: ServerAction
    instance_uuid: str
    arguments: Mapping[str, Any] = {}
    down_hosts: Collection[str] = ()
    override_lock: bool = False
    rebuilt: RebuiltServer | None = None
    action_id: int | None = None
    carried: tuple[int, ...] = ()
    waiting: tuple[WaitingDetachment, ...] = ()

    @property
    def takes_quota(self) -> bool:
        return self.action.makes_image or self.action in (REBUILD, RESTORE, ATTACH_INTERFACE)


class Chained(NamedTuple):
    """An action that follows another one, of the same request."""

    ctx: RequestContext
    message: ActionMessage


class LockedAction(msgspec.Struct, frozen=True, kw_only=True):
    """A server action in progress, its task and its instance, both locked."""

    action: ServerAction
    instance: LockedInstance
    task: Task


class Success(msgspec.Struct, frozen=True, kw_only=True):
    """A host has done an action."""

    ctx: RequestContext
    instance_uuid: str
    action_id: int
    host: str
    power_state: PowerState


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """An action that ends with its instance in vm_state `after`. `values`: further columns of the instance."""

    locked: LockedAction
    after: VmState
    values: dict[str, Any] = {}


class ServerActions:
    """`levels`: the version of each contract that every service serves, by topic, where it is known. `rebuilds`: None asks no
    scheduler.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        worker: Worker,
        computes: ComputeClient,
        liveness: Liveness,
        quotas: Quotas,
        images: Images,
        levels: Callable[[], Mapping[str, str]] = dict,
        rebuilds: rebuild.HostCheck | None = None,
        *,
        attachments: Attachments,
    ) -> None:
        self._rebuilds = rebuilds
        self._attachments = attachments
        self._worker = worker
        self._liveness = liveness
        self._quotas = quotas
        self._images = images
        self._levels = levels
        self._computes = computes
        self._timeout = float(conf.conductor.action_timeout)
        self._starts: GroupCommit[ActionRequest, ActionMessage | None] = GroupCommit(worker, self._start_all)
        self._successes: GroupCommit[Success, Chained | None] = GroupCommit(worker, self._succeed_all)
        self._conf = conf

    def start(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        kind: str,
        arguments: Mapping[str, Any],
        *,
        override_lock: bool = False,
    ) -> None:
        """BadRequest: there is no such action. NotFound: there is no such server. Conflict: its state does not allow the
        action, or its host is down. Forbidden: the quota of the image that it is to make.
        """
        action = BY_KIND.get(kind)
        if action is None:
            raise errors.BadRequest(f"There is no such server action: {kind[:64]}")
        self.require_levels(action)
        request = ActionRequest(
            ctx=ctx,
            action=action,
            instance_uuid=instance_uuid,
            arguments=arguments,
            down_hosts=self._liveness.down_hosts(),
            override_lock=override_lock,
            rebuilt=rebuild.rebuilt_server(arguments) if action is REBUILD else None,
        )
        if request.rebuilt is not None and self._rebuilds is not None:
            # A wrong state is said first, and the scheduler is not waited for in a transaction.
            self._worker.run(lambda session: _allowed(_locked_instance(session, instance_uuid), request))
            self._rebuilds.require(ctx, instance_uuid, request.rebuilt.image)
        message = self._begun(request)
        if message is None:
            return
        try:
            self._send(ctx, message)
        except errors.PeerTooOld as error:
            self._refuse(message, Failure(kind=kind_of(error), details=str(error)))

    def _begun(self, request: ActionRequest) -> ActionMessage | None:
        """None: it follows another one. Forbidden: a quota. Actions that take none, and are asked for at the same time, share a
        transaction.
        """
        if not request.takes_quota:
            return self._starts.run(request)

        def attempt() -> ActionMessage | None:
            return self._quotas.run(lambda session: self._start_all(session, [request])[0])

        try:
            for _ in range(MAC_TRIES - 1):
                with suppress(IntegrityError):  # another transaction has taken the same MAC address
                    return self._attachments.repeat(attempt)
            return self._attachments.repeat(attempt)
        except OverQuota as error:
            raise refused(error) from None

    def delete_port(self, ctx: RequestContext, instance_uuid: str, port_id: str) -> None:
        """Of a server, which loses its interface first: the port is going until then, and for its users it is gone. As in Neutron, no
        lock of the server stops it. Idempotent.

        PortInUse: the state of the server does not allow that now. PortNotFound: it has gone meanwhile.
        """
        if self._worker.run(lambda session: self._delete_port(session, instance_uuid, port_id)):
            return
        arguments = {"port_id": port_id, "for_good": True}
        try:
            self.start(ctx, instance_uuid, DETACH_INTERFACE.kind, arguments, override_lock=True)
        except errors.PortNotFound:
            raise
        except (errors.Conflict, errors.NotFound) as error:
            raise errors.PortInUse(
                f"Port {port_id} is in use by a server, and cannot be detached now: {error}"
            ) from None

    def interface_detached(self, instance_uuid: str, mac_address: str, host: str) -> None:
        """Idempotent. Of a port that is going: it goes. The report of another host changes nothing."""

        def work(session: Session) -> None:
            instance = _locked_instance(session, instance_uuid)
            if instance is not None and not instance.deleted and instance.host == host:
                self._attachments.release_going(session, instance_uuid, mac_address)

        self._worker.run(work)

    def _delete_port(self, session: Session, instance_uuid: str, port_id: str) -> bool:
        """Whether it needs no further action: the server has no host."""
        instance = _locked_instance(session, instance_uuid)
        task = tasks.lock(session, [instance_uuid]).get(instance_uuid)
        if task is None and (instance is None or instance.host is None):
            self._attachments.delete(session, instance_uuid, port_id)
            self._attachments.release_going(session, instance_uuid)
            return True
        return False

    def mark_soft_deleted(self, session: Session, instance: LockedInstance) -> None:
        """Of a locked instance whose host cannot be asked, and which no action is in progress of."""
        at = self._worker.at()
        after = (VmState.SOFT_DELETED, None)
        busy = (instance.state[0], SOFT_DELETE.progress[0])
        instances.transition(session, [instance.uuid], [instance.state], busy, updated_at=at)
        instances.transition(session, [instance.uuid], [busy], after, updated_at=at, terminated_at=at)
        quotas.give(session, instance.project_id, servers_quota(session, instance))
        announce_hosts(session, {instance.host}, self._worker.now())

    def require_levels(self, action: ServerAction) -> None:
        """PeerTooOld: a service that runs would not understand an instance with the task state of the action."""
        levels = self._levels()
        for topic, needed in action.since.items():
            if topic in levels and numbers(levels[topic]) < numbers(needed):
                raise errors.PeerTooOld(
                    f"{action.name} needs {topic} {needed}, and the oldest {topic} service that runs has {levels[topic]}"
                )

    # -- what hosts report -----------------------------------------------------------------------------------------

    def begin_action(self, instance_uuid: str, action_id: int, host: str, *, again: bool = False) -> None:
        """StaleAttempt: the action is no longer in progress on that host, which must leave the instance alone.

        `again`: the host is in the middle of it.
        """

        def work(session: Session) -> bool:
            locked = _lock_on(session, instance_uuid, action_id, host)
            return locked is not None and self._go_on(session, locked, again=again)

        with self._worker.db.read() as session:
            begun = None if again else _begun_without_writing(session, instance_uuid, action_id, host)
        if begun is None:
            begun = self._worker.run(work)
        if not begun:
            raise errors.StaleAttempt(f"Action {action_id} of instance {instance_uuid} is not in progress on {host}")

    def _go_on(self, session: Session, locked: LockedAction, *, again: bool) -> bool:
        """False: it has begun before, and may not be done twice."""
        action, uuid = locked.action, locked.task.instance_uuid
        payload = PAYLOAD.from_builtins(locked.task.payload)
        if not action.repeatable and not again:
            if payload.begun:
                self._fail(session, locked, _RESULT_UNKNOWN)
                return False
            tasks.set_payload(session, locked.task, msgspec.to_builtins(msgspec.structs.replace(payload, begun=True)))
        if action.notification and not (action.progress or again):
            # No state tells of its start.
            note(session, f"{action.notification}.start", [uuid], locked.instance.host)
        if again:
            # It has waited, for an image or for its guest: what follows gets its whole time.
            self._give_time(session, locked)
        vm_state, task_state = locked.instance.state
        instances.step_through(
            session, uuid, vm_state, action.steps(task_state, changes=again), updated_at=self._worker.at()
        )
        return True

    def action_progressed(self, instance_uuid: str, action_id: int, host: str, task_state: str) -> None:
        """StaleAttempt: the action is no longer in progress on that host. A step back changes no state."""

        def work(session: Session) -> bool:
            locked = _lock_on(session, instance_uuid, action_id, host)
            if locked is None:
                return False
            vm_state, before = locked.instance.state
            progress = locked.action.progress
            if before in progress and task_state in progress[progress.index(before) + 1 :]:
                after, at = (vm_state, TaskState(task_state)), self._worker.at()
                instances.transition(session, [instance_uuid], [(vm_state, before)], after, updated_at=at)
            self._give_time(session, locked)
            return True

        if not self._worker.run(work):
            raise errors.StaleAttempt(f"Action {action_id} of instance {instance_uuid} is not in progress on {host}")

    def _time_for(self, action: ServerAction) -> float:
        return min(self._timeout, SECRET_TIMEOUT) if action.secret else self._timeout

    def _give_time(self, session: Session, locked: LockedAction) -> None:
        """Its host goes on with it: it gets all of `action_timeout` again."""
        pause = _pause_after(PAYLOAD.from_builtins(locked.task.payload).asks)
        tasks.change(session, [(locked.task, {})], pause, self._worker.now(), deadline_in=self._time_for(locked.action))

    def action_succeeded(self, instance_uuid: str, action_id: int, host: str, power_state: int) -> None:
        """Idempotent; a stale report changes nothing. Reports that arrive at the same time share a transaction."""
        state = _power_state(power_state) or PowerState.NOSTATE
        chained = self._successes.run(
            Success(ctx=bound_context(), instance_uuid=instance_uuid, action_id=action_id, host=host, power_state=state)
        )
        if chained is not None:
            self._resend(chained.ctx, chained.message)

    def _succeed_all(self, session: Session, reports: Sequence[Success]) -> list[Chained | None]:
        locked = _lock_all(session, {report.instance_uuid for report in reports})
        endings: dict[str, Ending] = {}
        for report in reports:
            done = locked.get(report.instance_uuid)
            if done is None or not _is_on(done, report.action_id, report.host):
                continue
            values: dict[str, Any] = {"power_state": int(report.power_state)}
            if done.action is REBUILD:
                values["launched_at"] = self._worker.at()
            after = done.action.after_success(done.instance.state[0])
            endings[report.instance_uuid] = Ending(locked=done, after=after, values=values)
        self._end_all(session, [*endings.values()])
        chained = self._offload_all(session, [*endings.values()])
        return [chained.pop(report.instance_uuid, None) for report in reports]

    def _offload_all(self, session: Session, endings: Sequence[Ending]) -> dict[str, Chained]:
        """By instance: the offloads of those that have just been shelved, if they do not stay on their hosts.

        In the same transaction: no moment in which a server is idle and on its host, and nothing to lose between the two.
        """
        shelved = [ending.locked for ending in endings if ending.locked.action is SHELVE]
        if not shelved or self._conf.shelved_offload_time != 0:
            return {}
        requests = []
        for done in shelved:
            asked = actions.request_of(session, done.task.action_id or 0)
            ctx = RequestContext(request_id=asked.request_id, user_id=asked.user_id, project_id=asked.project_id)
            requests.append(ActionRequest(ctx=ctx, action=SHELVE_OFFLOAD, instance_uuid=done.instance.uuid))
        locked = instances.lock(session, [request.instance_uuid for request in requests])
        # One whose image its owner has deleted by now stays on its host.
        requests = [request for request in requests if _has_shelved_image(session, locked[request.instance_uuid])]
        if not requests:
            return {}
        messages = self._begin_all(session, requests, locked)
        return {
            request.instance_uuid: Chained(request.ctx, message)
            for request, message in zip(requests, messages, strict=True)
        }

    def action_failed(
        self,
        instance_uuid: str,
        action_id: int,
        host: str,
        failure: Failure,
        power_state: int | None = None,
        *,
        untouched: bool = False,
    ) -> None:
        """The instance is as before, or as the action's entry says. Idempotent; a stale report changes nothing.

        `power_state`: the guest's now, if the host knows it. `untouched`: nothing has happened to the guest.
        """
        state = _power_state(power_state)

        def work(session: Session) -> None:
            locked = _lock_on(session, instance_uuid, action_id, host)
            if locked is not None:
                # Else its guest may have the interface, and its addresses stay taken.
                if locked.action is ATTACH_INTERFACE and untouched:
                    self._attachments.release(session, instance_uuid, _port_of(locked.task))
                vm_state, task_state = locked.instance.state
                changed = locked.action.has_changed(task_state)
                as_before = untouched if changed is None else not changed
                after = locked.action.after_failure(vm_state, state, untouched=as_before)
                values = {} if state is None else {"power_state": int(state)}
                self._fail(session, locked, failure, after, **values)

        self._worker.run(work)

    # -- the task --------------------------------------------------------------------------------------------------

    def resume(self, ctx: RequestContext, instance_uuid: str, action_id: int | None, epoch: int) -> None:
        """Ask the host again; after `action_timeout` the action fails. One with secret arguments is waited for alone."""

        def work(session: Session) -> ActionMessage | None:
            locked = self._owned(session, instance_uuid, action_id, epoch)
            if locked is None:
                return None
            now = self._worker.now()
            if tasks.past_deadline(session, [instance_uuid], now):
                details = f"the host has not reported within {self._time_for(locked.action):g} s"
                self._give_up(session, locked, Failure(kind="HostTooSlow", details=details))
                return None
            payload = PAYLOAD.from_builtins(locked.task.payload)
            asked = msgspec.structs.replace(payload, asks=payload.asks + 1)
            changed = {"payload": msgspec.to_builtins(asked)}
            tasks.change(session, [(locked.task, changed)], _pause_after(asked.asks), now)
            if locked.action.secret:
                # What it would be asked with is not known here.
                return None
            return self._message(session, locked.action, locked.task)

        message = self._worker.run(work)
        if message is not None:
            self._resend(ctx, message)

    def expire(self, instance_uuid: str, action_id: int | None, epoch: int, failure: Failure) -> None:
        """There is no use in waiting for its host: the action fails."""

        def work(session: Session) -> None:
            locked = self._owned(session, instance_uuid, action_id, epoch)
            if locked is not None:
                self._give_up(session, locked, failure)

        self._worker.run(work)

    def _give_up(self, session: Session, locked: LockedAction, failure: Failure) -> None:
        """A deletion that was accepted holds without its host, which stops the guest once it is back."""
        if locked.action is not SOFT_DELETE:
            self._fail(session, locked, failure)
            return
        LOG.warning("Instance %s is soft-deleted without its host: %s", locked.instance.uuid, failure.details)
        self._end(session, locked, SOFT_DELETE.after_success(locked.instance.state[0]), None)

    def _send(self, ctx: RequestContext, message: ActionMessage) -> None:
        """PeerTooOld: the host does not know the action."""
        method, arguments = message.action.method, message.arguments
        self._computes.act(ctx, message.host, method, message.instance, message.action_id, arguments)

    def _resend(self, ctx: RequestContext, message: ActionMessage) -> None:
        """An earlier message may have arrived: only the host or the deadline says how it ends."""
        try:
            self._send(ctx, message)
        except errors.PeerTooOld as error:
            uuid = message.instance.uuid
            LOG.warning("Action %d of instance %s is not asked for again: %s", message.action_id, uuid, error)

    def _refuse(self, message: ActionMessage, failure: Failure) -> None:
        """The host was not asked: the instance is as before."""
        self.action_failed(message.instance.uuid, message.action_id, message.host, failure, untouched=True)

    # -- transactions ----------------------------------------------------------------------------------------------

    def required(
        self, session: Session, instance_uuid: str, action: ServerAction, *, override_lock: bool
    ) -> LockedInstance:
        """The instance, locked, whatever its host; what is in progress ends. Raises NotFound and Conflict."""
        request = ActionRequest(
            ctx=bound_context(), action=action, instance_uuid=instance_uuid, override_lock=override_lock
        )
        instance = _allowed(_locked_instance(session, instance_uuid), request)
        self._interrupt(session, instance, action, tasks.lock(session, [instance_uuid]).get(instance_uuid))
        return instance

    def _interrupt(
        self, session: Session, instance: LockedInstance, action: ServerAction, task: Task | None
    ) -> tuple[int, ...]:
        """End the action in progress, where this one may be asked for nevertheless. Conflict: it may not.

        Answers the records that do not end with it, but with this action.
        """
        if task is None:
            return ()
        earlier = BY_KIND.get(task.kind) if task.step == TaskStep.ACTION else None
        if earlier is None or not action.interrupts(earlier, instance.state[1]):
            raise errors.Conflict(f"Cannot '{action.name}' instance {instance.uuid} while another task is in progress")
        rebuild.undo(session, task, instance.state[1], self._worker.at())
        carried: list[int] = []
        if action is REBOOT_HARD:
            # The domain is defined anew, with this interface: whether that is done is known at its end.
            carried = [*PAYLOAD.from_builtins(task.payload).carried]
            if earlier is ATTACH_INTERFACE and task.action_id is not None:
                carried.append(task.action_id)
        ended = [number for number in records_of(task) if number not in carried]
        interrupted = Failure(kind="Interrupted", details=f"{action.name} was requested meanwhile")
        actions.end(session, ended, self._worker.at(), error=interrupted)
        discard_image(session, task)
        tasks.remove(session, [instance.uuid])
        return tuple(carried)

    def _start_all(self, session: Session, requests: Sequence[ActionRequest]) -> list[ActionMessage | None]:
        """None: it follows what is in progress. Raises NotFound and Conflict."""
        uuids = {request.instance_uuid for request in requests}
        if len(uuids) < len(requests):
            raise errors.Conflict("two actions of one instance are not begun together")
        locked, in_progress = instances.lock(session, uuids), tasks.lock(session, uuids)
        begun: list[ActionRequest] = []
        for request in requests:
            uuid = request.instance_uuid
            instance = _allowed(locked.get(uuid), request)
            if request.action is SHELVE_OFFLOAD and not _has_shelved_image(session, instance):
                raise errors.Conflict(
                    f"Cannot '{request.action.name}' instance {uuid}: its image {instance.shelved_image_id} cannot be found"
                )
            task = in_progress.get(uuid)
            if task is not None and request.action is DETACH_INTERFACE and task.kind in _OF_INTERFACES:
                self._let_wait(session, request, task)
                continue
            carried = self._interrupt(session, instance, request.action, task)
            begun.append(msgspec.structs.replace(request, carried=carried))
        messages = {one.instance.uuid: one for one in self._begin_all(session, begun, locked)} if begun else {}
        return [messages.get(request.instance_uuid) for request in requests]

    def _let_wait(self, session: Session, request: ActionRequest, task: Task) -> None:
        """As in Nova, several interfaces may be detached at the same time: it is done one after the other. Idempotent."""
        port_id = self._detached(session, request)
        payload = PAYLOAD.from_builtins(task.payload)
        is_detached = task.kind == DETACH_INTERFACE.kind and payload.arguments.get("port_id") == port_id
        if is_detached or port_id in {one.port_id for one in payload.waiting}:
            return
        action_id = actions.begin(session, [self._record(request)])[request.instance_uuid]
        follows = WaitingDetachment(port_id=port_id, action_id=action_id)
        kept = msgspec.structs.replace(payload, waiting=(*payload.waiting, follows))
        tasks.set_payload(session, task, msgspec.to_builtins(kept))

    def _detached(self, session: Session, request: ActionRequest) -> str:
        """The id of the port of a detachment; one that is deleted is going from now on. PortNotFound: the server has not got it."""
        port_id = str(request.arguments["port_id"])
        if request.arguments.get("for_good"):
            self._attachments.delete(session, request.instance_uuid, port_id)
        else:
            self._attachments.require(session, request.instance_uuid, port_id)
        return port_id

    def _begin_waiting(self, session: Session, endings: Sequence[Ending]) -> None:
        """Of each of these actions, which have ended, the first of the detachments that have waited for it."""
        for ending in endings:
            if ending.locked.action.kind in _OF_INTERFACES:
                waiting = PAYLOAD.from_builtins(ending.locked.task.payload).waiting
                self._begin_first(session, ending.locked.instance, waiting)

    def _begin_first(self, session: Session, instance: LockedInstance, waiting: Sequence[WaitingDetachment]) -> None:
        for number, first in enumerate(waiting):
            if not self._attachments.has(session, instance.uuid, first.port_id):
                actions.end(session, [first.action_id], self._worker.at())
                continue
            asked = actions.request_of(session, first.action_id)
            ctx = RequestContext(request_id=asked.request_id, user_id=asked.user_id, project_id=asked.project_id)
            request = ActionRequest(
                ctx=ctx,
                action=DETACH_INTERFACE,
                instance_uuid=instance.uuid,
                arguments={"port_id": first.port_id},
                action_id=first.action_id,
                waiting=tuple(waiting[number + 1 :]),
            )
            (message,) = self._begin_all(session, [request], {instance.uuid: instance})
            self._send_when_committed(session, ctx, message)
            return

    def _send_when_committed(self, session: Session, ctx: RequestContext, message: ActionMessage) -> None:
        """A conductor that dies before leaves it to the next look at the task."""
        what, send = (message.instance.uuid, message.action_id, "first"), partial(self._resend, ctx, message)
        event.listen(
            session, "after_commit", lambda _: self._worker.in_background(ctx, Kind.ACTION, what, send), once=True
        )

    def _record(self, request: ActionRequest) -> dict[str, Any]:
        return {
            "instance_uuid": request.instance_uuid,
            "action": request.action.name,
            "request_id": request.ctx.request_id,
            "user_id": request.ctx.user_id,
            "project_id": request.ctx.project_id,
            "start_time": self._worker.at(),
        }

    def _begin_all(
        self, session: Session, requests: Sequence[ActionRequest], locked: Mapping[str, LockedInstance]
    ) -> list[ActionMessage]:
        at = self._worker.at()
        payloads = [self._prepared(session, request, locked[request.instance_uuid]) for request in requests]
        action_ids = {one.instance_uuid: one.action_id for one in requests if one.action_id is not None}
        new = [self._record(request) for request in requests if request.action_id is None]
        if new:
            action_ids |= actions.begin(session, new)
        events, rows = [], []
        changes: dict[tuple[State, State], list[str]] = {}
        for request, payload in zip(requests, payloads, strict=True):
            action, instance = request.action, locked[request.instance_uuid]
            action_id = action_ids[instance.uuid]
            events.append({"action_id": action_id, "event": action.event, "host": instance.host, "start_time": at})
            rows.append(self._task_row(request, instance, action_id, payload))
            if action.progress:
                busy: State = (instance.state[0], action.progress[0])
                changes.setdefault((instance.state, busy), []).append(instance.uuid)
            elif action.exclusive:
                # Its rows have changed now; that its host begins writes nothing.
                note(session, f"{action.notification}.start", [instance.uuid], instance.host)
        actions.begin_events(session, events)
        for (before, busy), uuids in changes.items():
            instances.transition(session, uuids, [before], busy, updated_at=at, progress=0)
        tasks.insert_rows(session, rows, self._worker.now())
        for request, payload in zip(requests, payloads, strict=True):
            note_image(session, request.instance_uuid, image_id_of(payload.arguments))
        sent = instances.by_uuids(session, action_ids)
        return [
            ActionMessage(
                action=request.action,
                action_id=action_ids[request.instance_uuid],
                host=str(locked[request.instance_uuid].host),
                instance=_with_detached(session, sent[request.instance_uuid], request.action, payload.arguments),
                arguments=payload.arguments,
            )
            for request, payload in zip(requests, payloads, strict=True)
        ]

    def _prepared(self, session: Session, request: ActionRequest, instance: LockedInstance) -> ActionPayload:
        """What the host gets, after what the action takes and changes at once is written. Raises OverQuota."""
        arguments = dict(request.arguments)
        if request.action.makes_image:
            self._images.add(session, image_in(arguments))
        if request.action is RESTORE:
            self._quotas.take(session, instance.project_id, servers_quota(session, instance))
        if request.action is ATTACH_INTERFACE:
            port_id = self._attachments.attach(session, instance, interface_in(arguments))
            return ActionPayload(arguments={"port_id": port_id})
        if request.action is DETACH_INTERFACE:
            return ActionPayload(arguments={"port_id": self._detached(session, request)})
        if request.rebuilt is None:
            return ActionPayload(arguments=arguments)
        begun = rebuild.begin(session, instance, request.rebuilt, self._quotas, self._worker.at())
        return ActionPayload(arguments=begun.sent, before=begun.before)

    def _task_row(
        self, request: ActionRequest, instance: LockedInstance, action_id: int, payload: ActionPayload
    ) -> dict[str, Any]:
        kept = msgspec.structs.replace(payload, carried=request.carried, waiting=request.waiting)
        if request.action.secret:
            kept = msgspec.structs.replace(kept, arguments={})
        return {
            "kind": request.action.kind,
            "instance_uuid": instance.uuid,
            "reservation_id": "",
            "action_id": action_id,
            "worker_id": self._worker.id,
            "step": TaskStep.ACTION.value,
            "host": instance.host,
            "node": instance.node,
            "payload": msgspec.to_builtins(kept),
            "request_id": request.ctx.request_id,
            "wake_at": FIRST_PAUSE,
            "deadline": self._time_for(request.action),
            "created_at": self._worker.at(),
            "epoch": 1,
            "attempt": 0,
            "claim_number": 0,
        }

    def _message(self, session: Session, action: ServerAction, task: Task) -> ActionMessage:
        arguments = PAYLOAD.from_builtins(task.payload).arguments
        instance = instances.by_uuids(session, [task.instance_uuid])[task.instance_uuid]
        return ActionMessage(
            action=action,
            action_id=task.action_id or 0,
            host=str(task.host),
            instance=_with_detached(session, instance, action, arguments),
            arguments=arguments,
        )

    def _owned(self, session: Session, instance_uuid: str, action_id: int | None, epoch: int) -> LockedAction | None:
        """The action, if this worker owns its task under that epoch. The next action of the instance counts from 1 again."""
        locked = _lock(session, instance_uuid)
        held = (self._worker.id, action_id, epoch)
        owned = locked is not None and (locked.task.worker_id, locked.task.action_id, locked.task.epoch) == held
        return locked if owned else None

    def _fail(
        self, session: Session, locked: LockedAction, failure: Failure, after: VmState | None = None, **values: Any
    ) -> None:
        """`after` None: the instance is as before, unless its guest is changed already."""
        uuid, name = locked.task.instance_uuid, locked.action.name
        vm_state, task_state = locked.instance.state
        if after is None and locked.action.has_changed(task_state):
            after = locked.action.after_failure(vm_state, None)
        details = f"Host {locked.task.host} could not {name} the instance: {failure.details}"
        LOG.warning("Instance %s: %s", uuid, details)
        failed = Failure(kind=failure.kind, details=details, text=f"The server could not {name}. {failure.message}")
        actions.add_faults(session, [uuid], self._worker.at(), msgspec.structs.replace(failed, kind=FAILED))
        if locked.action in _ERRORS_NOTIFIED:
            note(session, f"{locked.action.notification}.error", [uuid], locked.task.host, FAILED, failure.details)
        self._end(session, locked, after or vm_state, failed, **values)

    def _end(
        self, session: Session, locked: LockedAction, after: VmState, error: Failure | None, **values: Any
    ) -> None:
        self._end_all(session, [Ending(locked=locked, after=after, values=values)], error)

    def _end_all(self, session: Session, endings: Sequence[Ending], error: Failure | None = None) -> None:
        """All of them well, or with the same error."""
        if not endings:
            return
        at, now = self._worker.at(), self._worker.now()
        changes: list[tuple[Transition, list[str]]] = []
        for ending in endings:
            if not ending.locked.action.progress:
                continue
            columns = _columns_at_end(ending, error, at)
            if error is None:
                columns |= shelved_columns(session, ending.locked.task, ending.locked.instance, ending.after, at)
            change = Transition(ending.locked.instance.state, (ending.after, None), columns)
            alike = next((uuids for known, uuids in changes if known == change), None)
            if alike is None:
                changes.append((change, alike := []))
            alike.append(ending.locked.instance.uuid)
        for change, uuids in changes:
            instances.transition(session, uuids, [change.before], change.after, updated_at=at, **change.columns)
        action_ids = [number for ending in endings for number in records_of(ending.locked.task, waiting=False)]
        actions.end(session, action_ids, at, error=error)
        for ending in endings:
            self._finish(session, ending.locked, error)
        tasks.remove(session, [ending.locked.instance.uuid for ending in endings])
        self._begin_waiting(session, endings)
        shown = {ending.locked.instance.host for ending in endings if _is_shown_by_host_tables(ending)}
        announce_hosts(session, shown, now)
        offloaded = [e.locked.instance.uuid for e in endings if e.after is VmState.SHELVED_OFFLOADED]
        if offloaded:
            claims.release(session, offloaded, now)

    def _finish(self, session: Session, locked: LockedAction, error: Failure | None) -> None:
        """What the action holds beside its task is kept or given back, and its end is noted."""
        uuid = locked.instance.uuid
        if locked.action is (SOFT_DELETE if error is None else RESTORE):
            quotas.give(session, locked.instance.project_id, servers_quota(session, locked.instance))
        if error is not None:
            rebuild.undo(session, locked.task, locked.instance.state[1], self._worker.at())
            discard_image(session, locked.task)
        else:
            rotate_backups(session, locked.task)
            if locked.action is DETACH_INTERFACE:
                self._attachments.release(session, uuid, _port_of(locked.task))
            elif locked.action in DEFINE_ANEW:
                # Without the interfaces of these ports.
                self._attachments.release_going(session, uuid)
        is_silent = locked.action.ends_in is None or locked.action is SHELVE_OFFLOAD
        if error is None and locked.action.notification and is_silent:
            # Its states are the same after a failure, or do not tell its host any more.
            note(session, f"{locked.action.notification}.end", [uuid], locked.instance.host)
        note_image(session, uuid, image_id_of(PAYLOAD.from_builtins(locked.task.payload).arguments))


class Transition(NamedTuple):
    """With further columns of the instance."""

    before: State
    after: State
    columns: dict[str, Any]


def _with_detached(
    session: Session, instance: Instance, action: ServerAction, arguments: Mapping[str, Any]
) -> Instance:
    """As its host gets it: with the interface that is to be detached, also of a port that is going."""
    if action is not DETACH_INTERFACE:
        return instance
    known = {vif.port_id for vif in instance.network_info}
    every = vifs.of_instances(session, [instance.uuid], rules=True, going=True).get(instance.uuid, ())
    more = tuple(vif for vif in every if vif.port_id == arguments["port_id"] and vif.port_id not in known)
    return msgspec.structs.replace(instance, network_info=(*instance.network_info, *more))


def _allowed(instance: LockedInstance | None, request: ActionRequest) -> LockedInstance:
    """The instance. Every "no" of its state to an action is said here: NotFound, Conflict."""
    uuid, action = request.instance_uuid, request.action
    if instance is None or instance.deleted:
        raise errors.NotFound(f"Instance {uuid} could not be found.")
    require_unlocked(instance, override=request.override_lock or action.ignores_lock)
    has_host, launched = instance.host is not None, instance.launched
    refusal = action.refusal(uuid, instance.state, has_host=has_host, launched=launched)
    if refusal is not None:
        raise errors.Conflict(refusal)
    if instance.host in request.down_hosts:
        raise errors.Conflict(
            f"Cannot '{action.name}' instance {uuid}: the compute service of its host is unavailable at this time"
        )
    return instance


def _columns_at_end(ending: Ending, error: Failure | None, at: datetime) -> dict[str, Any]:
    """Those of the instance that change with its state."""
    values, action = dict(ending.values), ending.locked.action
    if ending.after in STOPS_BY_ITSELF and values.get("power_state") in OFF:
        # The guest has shut itself down meanwhile. Its host tells so of every row that says otherwise, and that stops the instance.
        del values["power_state"]
    if error is None and action.kind in _TERMINATED:
        values["terminated_at"] = at if action is SOFT_DELETE else None
    return values


def _is_shown_by_host_tables(ending: Ending) -> bool:
    """Whether a host table shows the end: which instances hold something of the host, and their images."""
    before = ending.locked.instance.state[0]
    return ending.locked.action is REBUILD or (before in RESOURCE_FREE) != (ending.after in RESOURCE_FREE)


def _has_shelved_image(session: Session, instance: LockedInstance) -> bool:
    """Whether the disk of a shelved server is kept in its image. Without it the disk on the host is the only one."""
    image = images.find(session, instance.shelved_image_id) if instance.shelved_image_id is not None else None
    return image is not None and image.status == "active"


def _port_of(task: Task) -> str:
    """Of the task of an interface."""
    return str(PAYLOAD.from_builtins(task.payload).arguments["port_id"])


def _power_state(number: int | None) -> PowerState | None:
    """None: there is none, or none such."""
    return PowerState(number) if number is not None and number in [*PowerState] else None


def _locked_instance(session: Session, instance_uuid: str) -> LockedInstance | None:
    return instances.lock(session, [instance_uuid]).get(instance_uuid)


def _begun_without_writing(session: Session, instance_uuid: str, action_id: int, host: str) -> bool | None:
    """Whether the action is in progress on that host, where its beginning changes no row. None: it does."""
    now = actions.in_progress(session, instance_uuid)
    if now is None or (now.action_id, now.host) != (action_id, host):
        return False
    action = BY_KIND.get(now.kind)
    if action is None or now.step != TaskStep.ACTION or not action.is_in_progress(now.state):
        return False
    if action.repeatable and len(action.steps(now.state[1], changes=False)) < 2:
        return True
    return None


def _lock_on(session: Session, instance_uuid: str, action_id: int, host: str) -> LockedAction | None:
    """The action, if it is in progress on that host."""
    locked = _lock(session, instance_uuid)
    return locked if locked is not None and _is_on(locked, action_id, host) else None


def _is_on(locked: LockedAction, action_id: int, host: str) -> bool:
    return (locked.task.action_id, locked.task.host) == (action_id, host)


def _lock(session: Session, instance_uuid: str) -> LockedAction | None:
    """The action of that instance, if one is in progress."""
    return _lock_all(session, [instance_uuid]).get(instance_uuid)


def _lock_all(session: Session, instance_uuids: Collection[str]) -> dict[str, LockedAction]:
    """The actions in progress of these instances."""
    locked, found = instances.lock(session, instance_uuids), dict[str, LockedAction]()
    for uuid, task in tasks.lock(session, instance_uuids).items():
        action, instance = BY_KIND.get(task.kind), locked.get(uuid)
        if action is None or instance is None or task.step != TaskStep.ACTION or instance.deleted:
            continue
        if action.is_in_progress(instance.state):
            found[uuid] = LockedAction(action=action, instance=instance, task=task)
    return found


def _pause_after(asks: int) -> float:
    """Seconds until the host is asked again."""
    return float(min(FIRST_PAUSE * 2 ** min(asks - 1, 10), LONGEST_PAUSE))
