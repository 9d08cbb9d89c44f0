"""Server actions (`objects/actions/table.py`): the row first records the request, then the host is asked
until it has reported.

(active, None) --stop--> (active, powering-off), task(stop) --message--> compute
                             |  begin_action, action_succeeded ---> (stopped, None)
                             |  action_failed, host forced down or too old ---> (active, None) with the reason
                             |  no sign of life for action_timeout: the host is asked to cancel the action, and reports
                             |  host silent: the action waits for it
                             |  delete ---> (active, deleting): the action has ended with an error
                             |  an action that follows begins in the same transaction (`ActionKind.follower`)
                             '  an action that may interrupt it ends it, with an error (`ServerAction.interrupts`)

The id of the action's record is the fence: a message or a report of an action that is no longer in progress changes nothing.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.actions.engine.begin import BACKOFF, ActionMessage, BeginActions, Cancellation
from minova.conductor.actions.engine.end import EndActions
from minova.conductor.actions.engine.in_progress import Ending, LockedAction, lock, locked_instance
from minova.conductor.actions.engine.kind import ActionKind, ActionRequest
from minova.conductor.actions.engine.reports import OVERDUE, ActionReports
from minova.conductor.hosts.liveness import Liveness, is_fenced
from minova.conductor.quotas import Quotas, refused
from minova.conductor.servers.locks import require_unlocked
from minova.conductor.tasks.group_commit import GroupCommit
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.base import numbers
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor.api.servers import StartActionsApi
from minova.db.quotas import OverQuota
from minova.db.servers import actions as action_rows
from minova.db.servers import instances, tasks
from minova.db.servers.instances import LockedInstance
from minova.log import bound_context
from minova.messaging.rpc_levels import version_of
from minova.objects.actions.action import ServerAction
from minova.objects.actions.table import BY_KIND
from minova.objects.servers.failures import Failure, kind_of

LOG = logging.getLogger(__name__)
_HOST_TOO_OLD = Failure(
    kind="PeerTooOld", details="the compute service of the host is of a release without this action"
)
_HOST_REMOVED = Failure(kind="HostDown", details="the host has no compute service any more")


class ServerActions(StartActionsApi):
    """`levels`: the version of each contract that every service serves, by topic, if it is known."""

    def __init__(
        self,
        worker: TaskWorker,
        liveness: Liveness,
        quotas: Quotas,
        kinds: Mapping[str, ActionKind],
        begins: BeginActions,
        ends: EndActions,
        reports: ActionReports,
        levels: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._worker = worker
        self._liveness = liveness
        self._quotas = quotas
        self._kinds = kinds
        self._begins = begins
        self._ends = ends
        self._reports = reports
        self._levels = levels
        self._starts: GroupCommit[ActionRequest, ActionMessage | None] = GroupCommit(worker, self._start_all)

    def start_action(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        action: str,
        arguments: Mapping[str, Any] | None = None,
        override_lock: bool = False,
    ) -> None:
        """Raises BadRequest, too, if the arguments are invalid. Raises Forbidden if a quota does not allow the action, such as
        that of the image that it makes. Raises DiskFull if it makes an image and there is no room.
        """
        server_action = BY_KIND.get(action)
        if server_action is None:
            raise errors.BadRequest(f"There is no such server action: {action[:64]}")
        self.require_levels(server_action)
        if server_action.makes_image:
            self._worker.db.require_room()
        hooks = self._kinds[action]
        request = ActionRequest(
            ctx=ctx,
            action=server_action,
            instance_uuid=instance_uuid,
            arguments=hooks.parse(arguments or {}),
            absent_hosts=self._liveness.absent_hosts(),
            override_lock=override_lock,
        )
        if hooks.starts_elsewhere(request):
            return
        check = hooks.preflight(request)
        if check is not None:
            if self._worker.run(lambda session: self._begun_before(session, request)):
                return
            check()
        message = self._begin(request)
        if message is None:
            return
        try:
            self._begins.send(ctx, message)
        except errors.PeerTooOld as error:
            self._refuse(ctx, message, error)

    def require_levels(self, action: ServerAction) -> None:
        """Raises PeerTooOld if a running service would not understand an instance with the action's task states."""
        levels = self._levels()
        for topic, needed in action.since.items():
            if topic in levels and numbers(levels[topic]) < numbers(needed):
                raise errors.PeerTooOld(
                    f"A server is {action.done} with {topic} {needed} or newer, and the oldest {topic} service that runs has {levels[topic]}"
                )

    @staticmethod
    def _begun_before(session: Session, request: ActionRequest) -> bool:
        """Returns whether this is a second delivery of the request. Raises NotFound and Conflict if it is the first one
        and the instance does not allow the action.
        """
        instance = locked_instance(session, request.instance_uuid)
        if action_rows.already_begun(session, [request.begun]):
            return True
        require_allowed(instance, request)
        return False

    def _begin(self, request: ActionRequest) -> ActionMessage | None:
        """Returns None if the action follows one in progress, or has been begun already. Simultaneous actions that use no quota share a
        transaction.

        Raises Forbidden if a quota does not allow the action.
        """
        hooks = self._kinds[request.action.kind]
        if not hooks.takes_quota:
            return self._starts.run(request)
        try:
            return self._quotas.run(lambda session: self._start_all(session, [request])[0], *hooks.races)
        except OverQuota as error:
            raise refused(error) from None

    def _refuse(self, ctx: RequestContext, message: ActionMessage, error: errors.PeerTooOld) -> None:
        """The host did not get the action, so the instance returns to its earlier state."""
        action = (message.instance.uuid, message.action_id, message.host)
        self._reports.action_failed(ctx, *action, reason=str(error), kind=kind_of(error), untouched=True)

    # -- the task --------------------------------------------------------------------------------------------------

    def resume(self, ctx: RequestContext, instance_uuid: str, action_id: int | None, epoch: int) -> None:
        """Ask the host again. Without a sign of life for `action_timeout`, ask it to cancel the action; the action ends when
        the host has reported. An absent host is waited for. A compute of a release without the action has no process that could
        be at work on it, so the action fails. An action with secret arguments is not sent again.
        """
        hosts = self._liveness.hosts()

        def work(session: Session) -> ActionMessage | Cancellation | None:
            locked = self._owned(session, instance_uuid, action_id, epoch)
            if locked is None:
                return None
            if locked.task.host not in hosts.present:
                if locked.task.host not in hosts.known and is_fenced(session, locked.task.host, hosts):
                    self._give_up(session, locked, _HOST_REMOVED)
                else:
                    self._reports.wait_for_host(session, locked)
                return None
            if _is_unknown_to(locked.action, hosts.releases[str(locked.task.host)]):
                self._give_up(session, locked, _HOST_TOO_OLD)
                return None
            return self._ask_again(session, locked)

        message = self._worker.run(work)
        if isinstance(message, Cancellation):
            self._begins.ask_to_cancel(ctx, message)
        elif message is not None:
            self._begins.send_again(ctx, message)

    def _ask_again(self, session: Session, locked: LockedAction) -> ActionMessage | Cancellation | None:
        uuid, now = locked.instance.uuid, self._worker.now()
        is_over = not locked.action.irrevocable and bool(tasks.past_deadline(session, [uuid], now))
        payload = locked.payload
        if is_over:
            time = self._begins.time_for(locked.action)
            details = f"Host {locked.task.host} has given no sign of life of the action for {time:g} s"
            overdue = Failure(kind="HostTooSlow", details=details, text=OVERDUE)
            payload = self._reports.explain_wait(session, locked, overdue)
        counted = msgspec.structs.replace(payload, asks=payload.asks + 1)
        changed = {"payload": msgspec.to_builtins(counted)}
        tasks.change(session, [(locked.task, changed)], BACKOFF.pause(counted.asks), now)
        if is_over:
            return Cancellation(str(locked.task.host), uuid, locked.task.action_id or 0)
        if locked.action.secret:
            # The arguments are secret and not stored.
            return None
        return self._begins.message(session, locked.action, locked.task)

    def expire(self, instance_uuid: str, action_id: int | None, epoch: int, failure: Failure) -> None:
        """The host of the action is lost, so the action fails."""

        def work(session: Session) -> None:
            locked = self._owned(session, instance_uuid, action_id, epoch)
            if locked is not None:
                self._give_up(session, locked, failure)

        self._worker.run(work)

    def _give_up(self, session: Session, locked: LockedAction, failure: Failure) -> None:
        """End the action without its host. An irrevocable one succeeds; the host does it once it is back."""
        if not locked.action.irrevocable:
            self._ends.fail(session, locked, failure)
            return
        LOG.warning(
            "Instance %s counts as %s without its host: %s", locked.instance.uuid, locked.action.done, failure.details
        )
        after = locked.action.after_success(locked.instance.state[0])
        self._ends.end_all(session, [Ending(locked=locked, after=after)])

    # -- transactions ----------------------------------------------------------------------------------------------

    def required(
        self, session: Session, instance_uuid: str, action: ServerAction, *, override_lock: bool
    ) -> LockedInstance:
        """Returns the instance, locked, without checking its host; ends an action in progress. Raises NotFound and
        Conflict.
        """
        request = ActionRequest(
            ctx=bound_context(), action=action, instance_uuid=instance_uuid, override_lock=override_lock
        )
        instance = require_allowed(locked_instance(session, instance_uuid), request)
        self._ends.interrupt(session, instance, action, tasks.lock(session, [instance_uuid]).get(instance_uuid))
        return instance

    def _start_all(self, session: Session, requests: Sequence[ActionRequest]) -> list[ActionMessage | None]:
        """Returns None for an action that follows the one in progress, and for a second delivery of a request. Raises
        NotFound and Conflict.
        """
        uuids = {request.instance_uuid for request in requests}
        if len(uuids) < len(requests):
            raise errors.Conflict("two actions of one instance are not begun together")
        locked, in_progress = instances.lock(session, uuids), tasks.lock(session, uuids)
        begun: list[ActionRequest] = []
        before = action_rows.already_begun(session, [request.begun for request in requests])
        for request in requests:
            if request.begun in before:
                continue
            uuid = request.instance_uuid
            instance = require_allowed(locked.get(uuid), request)
            hooks, task = self._kinds[request.action.kind], in_progress.get(uuid)
            hooks.require(session, instance)
            if task is not None and hooks.queue(session, request, task):
                continue
            co_ending = self._ends.interrupt(session, instance, request.action, task)
            begun.append(msgspec.structs.replace(request, co_ending_actions=co_ending))
        begun_messages = self._begins.begin_all(session, begun, locked) if begun else []
        messages = {message.instance.uuid: message for message in begun_messages}
        return [messages.get(request.instance_uuid) for request in requests]

    def _owned(self, session: Session, instance_uuid: str, action_id: int | None, epoch: int) -> LockedAction | None:
        """Returns the action if this worker owns its task under that epoch. `action_id` is compared, too, because the
        epochs of the instance's next action start from 1 again.
        """
        locked = lock(session, instance_uuid)
        key = (self._worker.id, action_id, epoch)
        owned = locked is not None and (locked.task.worker_id, locked.task.action_id, locked.task.epoch) == key
        return locked if owned else None


def _is_unknown_to(action: ServerAction, release: int) -> bool:
    return numbers(version_of(ComputeApi.TOPIC, release)) < numbers(action.since[ComputeApi.TOPIC])


def require_allowed(instance: LockedInstance | None, request: ActionRequest) -> LockedInstance:
    """Returns the instance. Raises NotFound or Conflict for every reason for which its state does not allow the
    action.
    """
    uuid, action = request.instance_uuid, request.action
    if instance is None or instance.deleted:
        raise errors.NotFound(f"Instance {uuid} could not be found.")
    require_unlocked(instance, override=request.override_lock or action.ignores_lock)
    has_host, launched = instance.host is not None, instance.launched
    refusal = action.refusal(
        uuid, instance.state, has_host=has_host, launched=launched, power_state=instance.power_state
    )
    if refusal is not None:
        raise errors.Conflict(refusal)
    if instance.host in request.absent_hosts:
        raise errors.Conflict(
            f"Cannot '{action.name}' instance {uuid}: the compute service of its host is unavailable at this time"
        )
    return instance
