"""How server actions begin: record, task and state are written in one transaction; then the host gets a message."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.backoff import Backoff
from minova.conductor.actions.engine.kind import ActionKind, ActionRequest
from minova.conductor.actions.engine.payload import ActionPayload, payload_of
from minova.conductor.compute_messages import ComputeClient
from minova.conductor.notifications.instances import note, note_image
from minova.conductor.tasks.pools import WorkKind
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.db.engine import when_committed
from minova.db.models import Task, TaskStep
from minova.db.servers import actions, instances, state_changes, tasks
from minova.db.servers.instances import LockedInstance
from minova.objects.actions.action import SECRET_TIMEOUT, ServerAction
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import State

LOG = logging.getLogger(__name__)

# Seconds until a host that has not reported is asked for the second time; then twice as long each time, up to the
# limit. A compute that restarts is asked at once, when it registers.
BACKOFF = Backoff(first=15.0, longest=30.0)


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


class BeginActions:
    def __init__(
        self,
        conf: cfg.ConfigOpts,
        worker: TaskWorker,
        computes: ComputeClient,
        kinds: Mapping[str, ActionKind],
    ) -> None:
        self._timeout = float(conf.conductor.action_timeout)
        self._worker = worker
        self._computes = computes
        self._kinds = kinds

    def begin_all(
        self, session: Session, requests: Sequence[ActionRequest], locked: Mapping[str, LockedInstance]
    ) -> list[ActionMessage]:
        """Begins the actions. Returns the messages to send after the commit, in their order.

        `locked`: their instances, which have no tasks left. Raises OverQuota.
        """
        at = self._worker.at()
        payloads = [
            self._kinds[request.action.kind].prepare(session, locked[request.instance_uuid], request)
            for request in requests
        ]
        action_ids = {request.instance_uuid: request.action_id for request in requests if request.action_id is not None}
        new = [request.record(at) for request in requests if request.action_id is None]
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
            elif action.exclusive and action.notification:
                # Notify now, while rows change; when the host begins the action, nothing is written.
                note(session, f"{action.notification}.start", [instance.uuid], instance.host)
        actions.begin_events(session, events)
        for (before, busy), uuids in changes.items():
            state_changes.transition(session, uuids, [before], busy, updated_at=at, progress=0, has_fault=False)
        tasks.insert_rows(session, rows, self._worker.now())
        for request, payload in zip(requests, payloads, strict=True):
            note_image(session, request.instance_uuid, payload.arguments.image_id)
        sent = instances.by_uuids(session, action_ids)
        return [
            self._message(
                session,
                request.action,
                action_ids[request.instance_uuid],
                str(locked[request.instance_uuid].host),
                sent[request.instance_uuid],
                payload.arguments,
            )
            for request, payload in zip(requests, payloads, strict=True)
        ]

    def message(self, session: Session, action: ServerAction, task: Task) -> ActionMessage:
        """Returns the message that repeats this locked task to its host."""
        instance = instances.by_uuids(session, [task.instance_uuid])[task.instance_uuid]
        return self._message(session, action, task.action_id or 0, str(task.host), instance, payload_of(task).arguments)

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

    def send_when_committed(self, session: Session, ctx: RequestContext, message: ActionMessage) -> None:
        """Send after the commit. If the conductor dies before, the next round for due tasks sends the message."""
        what, send = (message.instance.uuid, message.action_id, "first"), partial(self.send_again, ctx, message)
        when_committed(session, lambda: self._worker.in_background(ctx, WorkKind.ACTION, what, send))

    def _message(
        self,
        session: Session,
        action: ServerAction,
        action_id: int,
        host: str,
        instance: Instance,
        arguments: HostArguments,
    ) -> ActionMessage:
        sent = self._kinds[action.kind].instance_for_host(session, instance, arguments)
        return ActionMessage(action=action, action_id=action_id, host=host, instance=sent, arguments=arguments)

    def _task_row(
        self, request: ActionRequest, instance: LockedInstance, action_id: int, payload: ActionPayload
    ) -> dict[str, Any]:
        stored_payload = msgspec.structs.replace(
            payload, co_ending_actions=request.co_ending_actions, queued=request.queued
        )
        if request.action.secret:
            stored_payload = msgspec.structs.replace(stored_payload, arguments=HostArguments())
        return {
            "kind": request.action.kind,
            "instance_uuid": instance.uuid,
            "reservation_id": "",
            "action_id": action_id,
            "worker_id": self._worker.id,
            "step": TaskStep.ACTION.value,
            "host": instance.host,
            "node": instance.node,
            "payload": msgspec.to_builtins(stored_payload),
            "request_id": request.ctx.request_id,
            "wake_at": BACKOFF.first,
            "deadline": self.time_for(request.action),
            "created_at": self._worker.at(),
            "epoch": 1,
            "attempt": 0,
            "claim_number": 0,
        }
