"""Resizes and cold migrations, and their confirmation or revert. A task of its own does the work: see
`conductor/moves/`.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.codecs import Decoder
from minova.conductor.actions.engine.in_progress import Ending, locked_instance
from minova.conductor.actions.engine.kind import ActionKind, ActionRequest, EveryKind, parsed
from minova.conductor.actions.engine.requests import ServerActions, require_allowed
from minova.conductor.hosts.liveness import Liveness
from minova.conductor.moves.start import BegunMove, RequestedMove, StartMoves
from minova.conductor.quotas import Quotas, refused
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext, service_context
from minova.contracts.conductor.api.moves import MovePreviewsApi
from minova.contracts.scheduler import SchedulerApi
from minova.db import quotas
from minova.db.quotas import OverQuota
from minova.db.servers import actions as action_rows
from minova.db.servers import instances, migrations, tasks
from minova.db.servers.instances import LockedInstance
from minova.objects.actions.action import ServerAction
from minova.objects.actions.moves import CONFIRM_RESIZE, LIVE_MIGRATE, MIGRATE, RESIZE, REVERT_RESIZE, MoveRequest
from minova.objects.actions.table import BY_KIND
from minova.objects.catalogue import disk_config
from minova.objects.requests.diagnosis import ScheduleAnswer
from minova.objects.servers.migration import Hold, MigrationType
from minova.objects.servers.moves import MoveMessage
from minova.objects.servers.states import PowerState

LOG = logging.getLogger(__name__)
# The most moves that one round confirms, and the seconds between two rounds.
LIMIT, CONFIRM_INTERVAL = 100, 60.0
_REQUEST = Decoder(MoveRequest)
_TYPES = {
    RESIZE.kind: MigrationType.RESIZE,
    MIGRATE.kind: MigrationType.MIGRATION,
    LIVE_MIGRATE.kind: MigrationType.LIVE_MIGRATION,
}
# Writes what belongs to the beginning, with the id of the action's record.
Write = Callable[[Session, LockedInstance, int], Any]


def wanted_of(action: ServerAction, arguments: MoveRequest) -> RequestedMove:
    return RequestedMove(_TYPES[action.kind], arguments.flavor, arguments.host, arguments.force, arguments.block)


class _BegunWithRecord(ActionKind):
    """A kind whose work begins in one transaction with the record of the action."""

    def __init__(self, worker: TaskWorker) -> None:
        self._worker = worker

    def _begin(self, session: Session, request: ActionRequest, write: Write) -> Any:
        """Returns what `write` returns; None if this is a second delivery. Raises NotFound and Conflict."""
        locked = locked_instance(session, request.instance_uuid)
        if action_rows.already_begun(session, [request.begun]):
            return None
        locked = require_allowed(locked, request)
        _require_no_task(request, is_busy=bool(tasks.lock(session, [locked.uuid])))
        action_id = action_rows.begin(session, [request.record(self._worker.at())])[locked.uuid]
        return write(session, locked, action_id)


def _require_no_task(request: ActionRequest, *, is_busy: bool) -> None:
    """Raises Conflict if the instance has a task, whatever its task state is."""
    if is_busy:
        raise errors.Conflict(
            f"Cannot '{request.action.name}' instance {request.instance_uuid} while another task is in progress"
        )


class Move(_BegunWithRecord):
    """`scheduler`: a client with a short time-out."""

    def __init__(self, worker: TaskWorker, moves: StartMoves, quotas: Quotas, scheduler: SchedulerApi) -> None:
        super().__init__(worker)
        self._moves = moves
        self._quotas = quotas
        self._scheduler = scheduler

    def parse(self, arguments: Mapping[str, Any]) -> MoveRequest:
        return parsed(_REQUEST, arguments)

    def starts_elsewhere(self, request: ActionRequest) -> bool:
        """Raises BadRequest if no host would take the server now."""
        requested_move = wanted_of(request.action, request.arguments)
        if not self._worker.run(lambda session: self._is_repeated(session, request)):
            self._require_host(request, requested_move)

        def write(session: Session, locked: LockedInstance, action_id: int) -> BegunMove:
            if request.arguments.disk_config is not None:
                system_metadata = instances.system_metadata_of(session, locked.uuid)
                changed = {"system_metadata": disk_config.changed(system_metadata, request.arguments.disk_config)}
                instances.set_attributes(session, locked.uuid, self._worker.at(), changed)
            return self._moves.begin(session, request.ctx, locked, action_id, requested_move)

        try:
            begun = self._quotas.run(lambda session: self._begin(session, request, write))
        except OverQuota as error:
            raise refused(error) from None
        if begun is not None:
            self._moves.in_background(request.ctx, request.instance_uuid, begun)
        return True

    def _is_repeated(self, session: Session, request: ActionRequest) -> bool:
        instance = locked_instance(session, request.instance_uuid)
        if action_rows.already_begun(session, [request.begun]):
            return True
        require_allowed(instance, request)
        return False

    def _require_host(self, request: ActionRequest, requested_move: RequestedMove) -> None:
        answer = self._moves.preview(request.ctx, request.instance_uuid, requested_move, self._scheduler)
        if not answer.selections:
            names_hosts = request.arguments.names_hosts
            raise errors.BadRequest(answer.diagnosis.summary() if names_hosts else "No valid host was found.")


class Settle(_BegunWithRecord):
    """Confirms a finished move, or reverts it."""

    def __init__(self, worker: TaskWorker, moves: StartMoves) -> None:
        super().__init__(worker)
        self._moves = moves

    def starts_elsewhere(self, request: ActionRequest) -> bool:
        reverts, absent = request.action is REVERT_RESIZE, request.absent_hosts
        settle = self._moves.revert if reverts else self._moves.confirm
        # The destination, which has the server now. A revert may take it from a host that is down. A confirmation then would
        # remove the source's copy, which may be the only one.
        if reverts:
            request = msgspec.structs.replace(request, absent_hosts=frozenset())

        def write(session: Session, locked: LockedInstance, action_id: int) -> MoveMessage:
            if reverts:
                self._moves.require_source(session, locked.uuid, absent)
            return settle(session, request.ctx, locked, action_id)

        message = self._worker.run(lambda session: self._begin(session, request, write))
        if message is not None:
            self._moves.send(request.ctx, message)
        return True


class ProvenDisks(EveryKind):
    """A guest that was started from its disks shows that they are there, so nothing holds unproven copies any more."""

    def __init__(self, worker: TaskWorker) -> None:
        self._worker = worker

    def ended(self, session: Session, endings: Sequence[Ending]) -> None:
        started = [ending.locked.instance.uuid for ending in endings if _has_started(ending)]
        if started:
            migrations.change_holds(session, started, Hold.NONE, self._worker.at(), self._worker.now())


def _has_started(ending: Ending) -> bool:
    opened = ending.locked.action.opens_disk and not ending.kept
    return opened and ending.values.get("power_state") == PowerState.RUNNING


class Confirmations:
    """`resize_confirm_window` is read each time, because it may change at run time."""

    def __init__(self, conf: cfg.ConfigOpts, worker: TaskWorker, actions: ServerActions) -> None:
        self._conf = conf
        self._worker = worker
        self._actions = actions

    def confirm_due(self) -> None:
        """Confirm the moves whose owners have not done it in time."""
        window = float(self._conf.resize_confirm_window)
        if window <= 0:
            return
        with self._worker.db.read() as session:
            unconfirmed = migrations.unconfirmed(session, self._worker.now(), window, LIMIT)
        for migration in unconfirmed:
            uuid = migration.instance_uuid
            LOG.info("Instance %s was moved more than %g s ago: it is confirmed", uuid, window)
            try:
                self._actions.start_action(service_context(), uuid, CONFIRM_RESIZE.kind, {}, override_lock=True)
            except errors.MinovaError as error:
                LOG.info("Instance %s is not confirmed: %s", uuid, error)


class MovePreviews(MovePreviewsApi):
    """`scheduler`: a client with a short time-out. `require_levels`: raises PeerTooOld for an action that a running service does
    not know.
    """

    def __init__(
        self,
        worker: TaskWorker,
        liveness: Liveness,
        moves: StartMoves,
        quotas: Quotas,
        scheduler: SchedulerApi,
        require_levels: Callable[[ServerAction], None],
    ) -> None:
        self._worker = worker
        self._liveness = liveness
        self._moves = moves
        self._quotas = quotas
        self._scheduler = scheduler
        self._require_levels = require_levels

    def preview_move(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        action: str,
        arguments: dict[str, Any],
        override_lock: bool = False,
    ) -> ScheduleAnswer:
        if action not in _TYPES:
            raise errors.BadRequest(f"{action[:64]} does not move a server")
        move_request = parsed(_REQUEST, arguments)
        request = ActionRequest(
            ctx=ctx,
            action=BY_KIND[action],
            instance_uuid=instance_uuid,
            arguments=move_request,
            absent_hosts=self._liveness.absent_hosts(),
            override_lock=override_lock,
        )
        self._require_levels(request.action)
        requested_move = wanted_of(request.action, move_request)

        with self._worker.db.read() as session:
            require_allowed(instances.not_locked(session, instance_uuid), request)
            _require_no_task(request, is_busy=tasks.kind_of(session, instance_uuid) is not None)
            instance = instances.by_uuids(session, [instance_uuid], networks=False)[instance_uuid]
        over = self._quotas.overrun(
            instance.project_id, quotas.more_than(requested_move.flavor or instance.flavor, instance.flavor)
        )
        if over is not None:
            raise refused(over)
        return self._moves.preview(ctx, instance_uuid, requested_move, self._scheduler)


def kinds(worker: TaskWorker, moves: StartMoves, quotas: Quotas, scheduler: SchedulerApi) -> dict[str, ActionKind]:
    move, settle = Move(worker, moves, quotas, scheduler), Settle(worker, moves)
    return dict.fromkeys(_TYPES, move) | {CONFIRM_RESIZE.kind: settle, REVERT_RESIZE.kind: settle}
