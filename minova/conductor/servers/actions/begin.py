"""How server actions begin: record, task and state are written in one transaction; then the host gets a message.

A detachment that was accepted during another attachment or detachment only has its record until it begins.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.backoff import Backoff
from minova.codecs import Decoder
from minova.conductor.catalogue.images import Images
from minova.conductor.compute_messages import ComputeClient
from minova.conductor.network.attachments import Attachments, interface_in
from minova.conductor.notifications.instances import note, note_image
from minova.conductor.quotas import Quotas
from minova.conductor.servers import rebuild
from minova.conductor.servers.action_images import PAYLOAD, ActionPayload, WaitingDetachment
from minova.conductor.servers.finish import servers_quota
from minova.conductor.tasks.pools import Kind
from minova.conductor.tasks.worker import Worker
from minova.context import RequestContext
from minova.db.engine import when_committed
from minova.db.models import Task, TaskStep
from minova.db.networks import vifs
from minova.db.servers import actions, instances, tasks
from minova.db.servers.instances import LockedInstance
from minova.objects.actions.action import SECRET_TIMEOUT, ServerAction
from minova.objects.actions.deletion import RESTORE
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.actions.interfaces import ATTACH_INTERFACE, DETACH_INTERFACE
from minova.objects.actions.rebuild import REBUILD, RebuiltServer
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import State

LOG = logging.getLogger(__name__)
_HOST_ARGUMENTS = Decoder(HostArguments)

# Seconds until a host that has not reported is asked for the second time; then twice as long each time, up to the
# limit. A compute that restarts is asked at once, when it registers.
BACKOFF = Backoff(first=15.0, longest=30.0)
OF_INTERFACES = frozenset({ATTACH_INTERFACE.kind, DETACH_INTERFACE.kind})


class ActionMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The message to the host of an instance."""

    action: ServerAction
    action_id: int
    host: str
    instance: Instance
    arguments: HostArguments = HostArguments()


class Cancellation(NamedTuple):
    """The message to a host that has given no sign of life of an action for too long."""

    host: str
    instance_uuid: str
    action_id: int


class ActionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A requested action.

    `absent_hosts`: hosts that cannot be asked now.
    `action_id`: the action's record, if there is one already.
    `carried`, `waiting`: see `ActionPayload`.
    """

    ctx: RequestContext
    action: ServerAction
    instance_uuid: str
    arguments: Mapping[str, Any] = {}
    absent_hosts: Collection[str] = ()
    override_lock: bool = False
    rebuilt: RebuiltServer | None = None
    action_id: int | None = None
    carried: tuple[int, ...] = ()
    waiting: tuple[WaitingDetachment, ...] = ()

    @property
    def begun(self) -> actions.Begun:
        """The key of the action's record."""
        return actions.Begun(self.instance_uuid, self.ctx.request_id, self.action.name)

    @property
    def takes_quota(self) -> bool:
        return self.action.makes_image or self.action in (REBUILD, RESTORE, ATTACH_INTERFACE)


class BeginActions:
    def __init__(
        self,
        conf: cfg.ConfigOpts,
        worker: Worker,
        computes: ComputeClient,
        quotas: Quotas,
        images: Images,
        attachments: Attachments,
    ) -> None:
        self._timeout = float(conf.conductor.action_timeout)
        self._worker = worker
        self._computes = computes
        self._quotas = quotas
        self._images = images
        self._attachments = attachments

    def begin_all(
        self, session: Session, requests: Sequence[ActionRequest], locked: Mapping[str, LockedInstance]
    ) -> list[ActionMessage]:
        """Begins the actions. Returns the messages to send after the commit, in their order.

        `locked`: their instances, which have no tasks left. Raises OverQuota.
        """
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
                # Notify now, while rows change; when the host begins the action, nothing is written.
                note(session, f"{action.notification}.start", [instance.uuid], instance.host)
        actions.begin_events(session, events)
        for (before, busy), uuids in changes.items():
            instances.transition(session, uuids, [before], busy, updated_at=at, progress=0)
        tasks.insert_rows(session, rows, self._worker.now())
        for request, payload in zip(requests, payloads, strict=True):
            note_image(session, request.instance_uuid, payload.arguments.image_id)
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

    def let_wait(self, session: Session, request: ActionRequest, task: Task) -> None:
        """Queue a detachment. As in Nova, several detachments may be requested at the same time; they are done one
        after the other. Idempotent.
        """
        port_id = self._detached(session, request)
        payload = PAYLOAD.from_builtins(task.payload)
        is_detached = task.kind == DETACH_INTERFACE.kind and payload.arguments.port_id == port_id
        if is_detached or port_id in {one.port_id for one in payload.waiting}:
            return
        action_id = actions.begin(session, [self._record(request)])[request.instance_uuid]
        follows = WaitingDetachment(port_id=port_id, action_id=action_id)
        kept = msgspec.structs.replace(payload, waiting=(*payload.waiting, follows))
        tasks.set_payload(session, task, msgspec.to_builtins(kept))

    def begin_waiting(self, session: Session, instance: LockedInstance, waiting: Sequence[WaitingDetachment]) -> None:
        """Begin the first of the detachments whose port the instance still has. The others wait for that one.

        `instance`: locked and without a task.
        """
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
            (message,) = self.begin_all(session, [request], {instance.uuid: instance})
            self._send_when_committed(session, ctx, message)
            return

    def message(self, session: Session, action: ServerAction, task: Task) -> ActionMessage:
        """Returns the message that repeats this locked task to its host."""
        arguments = PAYLOAD.from_builtins(task.payload).arguments
        instance = instances.by_uuids(session, [task.instance_uuid])[task.instance_uuid]
        return ActionMessage(
            action=action,
            action_id=task.action_id or 0,
            host=str(task.host),
            instance=_with_detached(session, instance, action, arguments),
            arguments=arguments,
        )

    def send(self, ctx: RequestContext, message: ActionMessage) -> None:
        """Raises PeerTooOld if the host does not know the action."""
        kind, arguments = message.action.kind, message.arguments
        self._computes.act(ctx, message.host, kind, message.instance, message.action_id, arguments)

    def send_again(self, ctx: RequestContext, message: ActionMessage) -> None:
        """PeerTooOld does not fail the action: an earlier message may have arrived, so only the host or the deadline
        decides how it ends.
        """
        try:
            self.send(ctx, message)
        except errors.PeerTooOld as error:
            uuid = message.instance.uuid
            LOG.warning("Action %d of instance %s is not asked for again: %s", message.action_id, uuid, error)

    def ask_to_cancel(self, ctx: RequestContext, cancellation: Cancellation) -> None:
        """The host reports whether the action has begun. Without that report nothing has ended."""
        host, instance_uuid, action_id = cancellation
        self._computes.cancel_action(ctx, host, instance_uuid, action_id)

    def time_for(self, action: ServerAction) -> float:
        """Returns the seconds without a sign of life of the action after which its host is asked to cancel it."""
        return min(self._timeout, SECRET_TIMEOUT) if action.secret else self._timeout

    def _send_when_committed(self, session: Session, ctx: RequestContext, message: ActionMessage) -> None:
        """Send after the commit. If the conductor dies before, the next round for due tasks sends the message."""
        what, send = (message.instance.uuid, message.action_id, "first"), partial(self.send_again, ctx, message)
        when_committed(session, lambda: self._worker.in_background(ctx, Kind.ACTION, what, send))

    def _prepared(self, session: Session, request: ActionRequest, instance: LockedInstance) -> ActionPayload:
        """Writes what the action takes and changes at once. Returns what the host gets. Raises OverQuota."""
        if request.action is RESTORE:
            self._quotas.take(session, instance.project_id, servers_quota(session, instance))
        if request.action is ATTACH_INTERFACE:
            port_id = self._attachments.attach(session, instance, interface_in(request.arguments))
            return ActionPayload(arguments=HostArguments(port_id=port_id))
        if request.action is DETACH_INTERFACE:
            return ActionPayload(arguments=HostArguments(port_id=self._detached(session, request)))
        if request.rebuilt is not None:
            begun = rebuild.begin(session, instance, request.rebuilt, self._quotas, self._worker.at())
            return ActionPayload(arguments=begun.sent, before=begun.before)
        arguments = _HOST_ARGUMENTS.from_builtins(dict(request.arguments))
        if request.action.makes_image:
            assert arguments.image is not None
            self._images.add(session, arguments.image)
        return ActionPayload(arguments=arguments)

    def _detached(self, session: Session, request: ActionRequest) -> str:
        """Returns the id of the port of a detachment; a port to be deleted is marked for deletion. Raises PortNotFound
        if the server does not have it.
        """
        port_id = str(request.arguments["port_id"])
        if request.arguments.get("for_good"):
            self._attachments.delete(session, request.instance_uuid, port_id)
        else:
            self._attachments.require(session, request.instance_uuid, port_id)
        return port_id

    def _record(self, request: ActionRequest) -> dict[str, Any]:
        return {
            "instance_uuid": request.instance_uuid,
            "action": request.action.name,
            "request_id": request.ctx.request_id,
            "user_id": request.ctx.user_id,
            "project_id": request.ctx.project_id,
            "start_time": self._worker.at(),
        }

    def _task_row(
        self, request: ActionRequest, instance: LockedInstance, action_id: int, payload: ActionPayload
    ) -> dict[str, Any]:
        kept = msgspec.structs.replace(payload, carried=request.carried, waiting=request.waiting)
        if request.action.secret:
            kept = msgspec.structs.replace(kept, arguments=HostArguments())
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
            "wake_at": BACKOFF.first,
            "deadline": self.time_for(request.action),
            "created_at": self._worker.at(),
            "epoch": 1,
            "attempt": 0,
            "claim_number": 0,
        }


def _with_detached(session: Session, instance: Instance, action: ServerAction, arguments: HostArguments) -> Instance:
    """Returns the instance with the interface that is to be detached, even if its port is marked for deletion."""
    if action is not DETACH_INTERFACE:
        return instance
    known = {vif.port_id for vif in instance.network_info}
    every = vifs.of_instances(session, [instance.uuid], rules=True, pending_delete=True).get(instance.uuid, ())
    more = tuple(vif for vif in every if vif.port_id == arguments.port_id and vif.port_id not in known)
    return msgspec.structs.replace(instance, network_info=(*instance.network_info, *more))
