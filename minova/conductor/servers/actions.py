"""Server actions (`objects/server_actions.py`): the row says first what is wanted, then the host is asked until it has reported.

(active, None) --stop--> (active, powering-off), task(stop) --message--> compute
                             |  begin_action, action_succeeded ---> (stopped, None)
                             |  action_failed, host down or too old, too slow ---> (active, None) with the reason
                             '  delete ---> (active, deleting): the action has ended with an error

The id of the action's record is the fence: a message or a report of an action that is no longer in progress changes nothing.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.codecs import Decoder
from minova.conductor.compute_messages import ComputeClient
from minova.conductor.servers.finish import announce_hosts
from minova.conductor.tasks.worker import Worker
from minova.context import RequestContext
from minova.contracts.base import numbers
from minova.db.models import Task, TaskStep
from minova.db.servers import actions, instances, tasks
from minova.db.servers.instances import LockedInstance
from minova.objects.failures import Failure, kind_of
from minova.objects.instance import Instance
from minova.objects.server_actions import BY_NAME, ServerAction
from minova.objects.states import PowerState, State

LOG = logging.getLogger(__name__)

# Seconds until a host that has not reported is asked for the second time; then twice as long each time, up to the limit.
FIRST_PAUSE, LONGEST_PAUSE = 15.0, 120.0
FAILED = "ServerActionFailed"


class ActionPayload(msgspec.Struct, frozen=True, kw_only=True):
    """An action task's payload: how often the host has been asked."""

    asks: int = 1


_PAYLOAD = Decoder(ActionPayload)


class ActionMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent to the host of an instance."""

    action: ServerAction
    action_id: int
    host: str
    instance: Instance


class LockedAction(msgspec.Struct, frozen=True, kw_only=True):
    """A server action in progress, its task and its instance, both locked."""

    action: ServerAction
    instance: LockedInstance
    task: Task


class ServerActions:
    """`levels`: the version of each contract that every service serves, by topic, where it is known."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        worker: Worker,
        computes: ComputeClient,
        levels: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._worker = worker
        self._levels = levels
        self._computes = computes
        self._timeout = float(conf.conductor.action_timeout)

    def start(self, ctx: RequestContext, instance_uuid: str, name: str) -> None:
        """BadRequest: there is no such action. NotFound: there is no such server. Conflict: it is in no state for it."""
        action = BY_NAME.get(name)
        if action is None:
            raise errors.BadRequest(f"There is no such server action: {name[:64]}")
        self._require_levels(action)
        self._send(ctx, self._worker.run(lambda session: self._begin(session, ctx, instance_uuid, action)))

    def _require_levels(self, action: ServerAction) -> None:
        """PeerTooOld: a service that runs would not understand an instance with the task state of the action."""
        levels = self._levels()
        for topic, needed in action.since.items():
            if topic in levels and numbers(levels[topic]) < numbers(needed):
                raise errors.PeerTooOld(
                    f"{action.name} needs {topic} {needed}, and the oldest {topic} service that runs has {levels[topic]}"
                )

    # -- what hosts report -----------------------------------------------------------------------------------------

    def begin_action(self, instance_uuid: str, action_id: int, host: str) -> None:
        """StaleAttempt: the action is no longer in progress on that host, which must leave the instance alone."""

        def work(session: Session) -> None:
            if _lock_on(session, instance_uuid, action_id, host) is None:
                raise errors.StaleAttempt(
                    f"Action {action_id} of instance {instance_uuid} is not in progress on {host}"
                )

        self._worker.run(work)

    def action_succeeded(self, instance_uuid: str, action_id: int, host: str, power_state: int) -> None:
        """Idempotent; a stale report changes nothing."""
        state = PowerState(power_state) if power_state in [*PowerState] else PowerState.NOSTATE

        def work(session: Session) -> None:
            locked = _lock_on(session, instance_uuid, action_id, host)
            if locked is not None:
                self._end(session, locked, (locked.action.ends_in, None), None, power_state=int(state))

        self._worker.run(work)

    def action_failed(self, instance_uuid: str, action_id: int, host: str, failure: Failure) -> None:
        """The instance is as before. Idempotent; a stale report changes nothing."""

        def work(session: Session) -> None:
            locked = _lock_on(session, instance_uuid, action_id, host)
            if locked is not None:
                self._fail(session, locked, failure)

        self._worker.run(work)

    # -- the task --------------------------------------------------------------------------------------------------

    def resume(self, ctx: RequestContext, instance_uuid: str, epoch: int) -> None:
        """Ask the host again; after `action_timeout` the action fails."""

        def work(session: Session) -> ActionMessage | None:
            locked = self._owned(session, instance_uuid, epoch)
            if locked is None:
                return None
            now = self._worker.now()
            if tasks.past_deadline(session, [instance_uuid], now):
                details = f"the host has not reported within {self._timeout:g} s"
                self._fail(session, locked, Failure(kind="HostTooSlow", details=details))
                return None
            asks = _PAYLOAD.from_builtins(locked.task.payload).asks + 1
            payload = {"payload": msgspec.to_builtins(ActionPayload(asks=asks))}
            tasks.change(session, [(locked.task, payload)], _pause_after(asks), now)
            return self._message(session, locked.action, locked.task)

        message = self._worker.run(work)
        if message is not None:
            self._send(ctx, message)

    def expire(self, instance_uuid: str, epoch: int, failure: Failure) -> None:
        """The action fails: there is no use in waiting for its host."""

        def work(session: Session) -> None:
            locked = self._owned(session, instance_uuid, epoch)
            if locked is not None:
                self._fail(session, locked, failure)

        self._worker.run(work)

    def _send(self, ctx: RequestContext, message: ActionMessage) -> None:
        """A host that is too old for the action never does it: the action fails at once."""
        try:
            self._computes.act(ctx, message.host, message.action.method, message.instance, message.action_id)
        except errors.PeerTooOld as error:
            failure = Failure(kind=kind_of(error), details=str(error))
            self.action_failed(message.instance.uuid, message.action_id, message.host, failure)

    # -- transactions ----------------------------------------------------------------------------------------------

    def _begin(self, session: Session, ctx: RequestContext, instance_uuid: str, action: ServerAction) -> ActionMessage:
        instance = instances.lock(session, [instance_uuid]).get(instance_uuid)
        if instance is None or instance.deleted:
            raise errors.NotFound(f"Instance {instance_uuid} could not be found.")
        has_host, launched = instance.host is not None, instance.launched
        refusal = action.refusal(instance_uuid, instance.state, has_host=has_host, launched=launched)
        if refusal is not None:
            raise errors.Conflict(refusal)
        if tasks.lock(session, [instance_uuid]):
            raise errors.Conflict(f"Cannot '{action.name}' instance {instance_uuid} while another task is in progress")
        at, now = self._worker.at(), self._worker.now()
        action_row: dict[str, Any] = {
            "instance_uuid": instance_uuid,
            "action": action.name,
            "request_id": ctx.request_id,
        }
        action_row |= {"user_id": ctx.user_id, "project_id": ctx.project_id, "start_time": at}
        action_id = actions.begin(session, [action_row])[instance_uuid]
        actions.begin_events(
            session, [{"action_id": action_id, "host": instance.host, "start_time": at}], event=action.event
        )
        busy = (instance.state[0], action.task_state)
        instances.transition(session, [instance_uuid], [instance.state], busy, updated_at=at, progress=0)
        row: dict[str, Any] = {
            "kind": action.name,
            "instance_uuid": instance_uuid,
            "reservation_id": "",
            "action_id": action_id,
            "worker_id": self._worker.id,
            "step": TaskStep.ACTION.value,
            "host": instance.host,
            "node": instance.node,
            "payload": msgspec.to_builtins(ActionPayload()),
            "request_id": ctx.request_id,
            "wake_at": FIRST_PAUSE,
            "deadline": self._timeout,
            "created_at": at,
            "epoch": 1,
            "attempt": 0,
            "claim_number": 0,
        }
        tasks.insert_rows(session, [row], now)
        sent = instances.by_uuids(session, [instance_uuid])[instance_uuid]
        return ActionMessage(action=action, action_id=action_id, host=str(instance.host), instance=sent)

    def _message(self, session: Session, action: ServerAction, task: Task) -> ActionMessage:
        instance = instances.by_uuids(session, [task.instance_uuid])[task.instance_uuid]
        return ActionMessage(action=action, action_id=task.action_id or 0, host=str(task.host), instance=instance)

    def _owned(self, session: Session, instance_uuid: str, epoch: int) -> LockedAction | None:
        """The action, if this worker owns its task under that epoch."""
        locked = _lock(session, instance_uuid)
        owned = locked is not None and (locked.task.worker_id, locked.task.epoch) == (self._worker.id, epoch)
        return locked if owned else None

    def _fail(self, session: Session, locked: LockedAction, failure: Failure) -> None:
        uuid, name = locked.task.instance_uuid, locked.action.name
        details = f"Host {locked.task.host} could not {name} the instance: {failure.details}"
        LOG.warning("Instance %s: %s", uuid, details)
        failed = Failure(kind=FAILED, details=details, text=f"The server could not {name}. {failure.message}")
        actions.add_faults(session, [uuid], self._worker.at(), failed)
        self._end(session, locked, (locked.instance.state[0], None), failed)

    def _end(self, session: Session, locked: LockedAction, after: State, error: Failure | None, **values: Any) -> None:
        uuid, at = locked.task.instance_uuid, self._worker.at()
        instances.transition(session, [uuid], [locked.instance.state], after, updated_at=at, **values)
        if locked.task.action_id is not None:
            actions.end(session, [locked.task.action_id], at, error=error)
        tasks.remove(session, [uuid])
        announce_hosts(session, {locked.instance.host}, self._worker.now())


def _lock_on(session: Session, instance_uuid: str, action_id: int, host: str) -> LockedAction | None:
    """The action, if it is in progress on that host."""
    locked = _lock(session, instance_uuid)
    on_host = locked is not None and (locked.task.action_id, locked.task.host) == (action_id, host)
    return locked if on_host else None


def _lock(session: Session, instance_uuid: str) -> LockedAction | None:
    """The action of that instance, if one is in progress."""
    instance = instances.lock(session, [instance_uuid]).get(instance_uuid)
    task = tasks.lock(session, [instance_uuid]).get(instance_uuid)
    if instance is None or task is None:
        return None
    action = BY_NAME.get(task.kind)
    if action is None or task.step != TaskStep.ACTION or instance.deleted or instance.state not in action.in_progress:
        return None
    return LockedAction(action=action, instance=instance, task=task)


def _pause_after(asks: int) -> float:
    """Seconds until the host is asked again."""
    return float(min(FIRST_PAUSE * 2 ** min(asks - 1, 10), LONGEST_PAUSE))
