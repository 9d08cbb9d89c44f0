"""Orders of users about a move in progress: take it back, or let a live migration end soon."""

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.moves.changes import Entry, MoveChanges
from minova.conductor.moves.in_progress import LockedMove, lock
from minova.conductor.moves.steps import MoveSteps
from minova.conductor.servers.locks import require_unlocked
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.moves import MoveOrdersApi
from minova.db.servers import actions
from minova.objects.servers.failures import Failure
from minova.objects.servers.moves import BEFORE_SWITCH, MigrationOrder, MovePhase

replace = msgspec.structs.replace
# Nova's names in the records.
CANCEL, FORCE_COMPLETE = "live_migration_cancel", "live_migration_force_complete"


class MoveOrders(MoveOrdersApi):
    def __init__(self, worker: TaskWorker, changes: MoveChanges, steps: MoveSteps) -> None:
        self._worker = worker
        self._changes = changes
        self._steps = steps

    def cancel_move(
        self, ctx: RequestContext, instance_uuid: str, migration_uuid: str, override_lock: bool = False
    ) -> None:
        def work(session: Session) -> Entry | None:
            move = self._ordered(session, ctx, instance_uuid, migration_uuid, override_lock, CANCEL)
            if move is None or move.plan.cancelled or move.plan.order is MigrationOrder.ABORT:
                return None
            if move.plan.phase is MovePhase.MIGRATE:
                self._changes.order(session, move, MigrationOrder.ABORT)
                return None
            if move.plan.phase not in BEFORE_SWITCH or move.plan.reverting:
                later = "" if move.migration.is_live else ": revert it when it is done"
                raise errors.Conflict(f"Migration {migration_uuid} cannot be cancelled any more{later}")
            failure = Failure(kind="Interrupted", details="it was cancelled", text="It was cancelled.")
            self._changes.note_order(session, move, MigrationOrder.ABORT)
            cancelled = replace(move, plan=replace(move.plan, cancelled=True))
            return self._steps.give_up(session, cancelled, failure)

        self._steps.run(work)
        self._steps.start_queued()

    def force_complete_migration(
        self, ctx: RequestContext, instance_uuid: str, migration_uuid: str, override_lock: bool = False
    ) -> None:
        def work(session: Session) -> None:
            move = self._ordered(session, ctx, instance_uuid, migration_uuid, override_lock, FORCE_COMPLETE)
            if move is None:
                return
            if move.plan.phase is not MovePhase.MIGRATE:
                raise errors.Conflict(f"Migration {migration_uuid} is in phase {move.plan.phase}: no guest migrates")
            if move.plan.order is MigrationOrder.NONE:
                self._changes.order(session, move, MigrationOrder.FORCE_COMPLETE)

        self._worker.run(work)

    def _ordered(
        self,
        session: Session,
        ctx: RequestContext,
        instance_uuid: str,
        migration_uuid: str,
        override_lock: bool,
        action: str,
    ) -> LockedMove | None:
        """Returns the locked move, and records the order; None: this is a second delivery of the request."""
        move = lock(session, instance_uuid)
        if move is None or move.migration.uuid != migration_uuid:
            raise errors.Conflict(f"Migration {migration_uuid} of instance {instance_uuid} is not in progress")
        require_unlocked(move.instance, override=override_lock)
        if actions.already_begun(session, [actions.ActionKey(instance_uuid, ctx.request_id, action)]):
            return None
        self._changes.record(session, ctx, instance_uuid, action)
        return move
