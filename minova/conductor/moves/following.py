"""Which phase of a move follows, by its type. Pure."""

from minova.conductor.moves import live_plan
from minova.conductor.moves import plan as cold_plan
from minova.conductor.moves.in_progress import LockedMove
from minova.conductor.moves.plan import Loss, MoveEnd
from minova.objects.servers.moves import MovePhase


def after_success(move: LockedMove) -> MovePhase | MoveEnd:
    follow = live_plan.after_success if move.migration.is_live else cold_plan.after_success
    return follow(move.plan, move.migration)


def after_failure(move: LockedMove) -> MovePhase | MoveEnd:
    """Returns what follows if no alternate is left, or none may be tried."""
    follow = live_plan.after_failure if move.migration.is_live else cold_plan.after_failure
    return follow(move.plan, move.migration)


def after_loss(move: LockedMove, loss: Loss) -> MovePhase | MoveEnd | None:
    """Returns what follows when the host of this phase is lost; None: the move waits for it."""
    follow = live_plan.after_loss if move.migration.is_live else cold_plan.after_loss
    return follow(move.plan, move.migration, loss)
