"""Nova's notifications of moves: which ones a step or an end of a move causes, and on which host. Pure.

    resize_prep     destination: claim                        live_migration_pre            destination: prepare
    resize          source: export, import, release           live_migration_post           source: arrive, leave
    resize_finish   destination: start                        live_migration_post_dest      destination: arrive
    resize_confirm  source: leave                             live_migration_rollback       source: stay, discard
    resize_revert   source: restore of a revert               live_migration_rollback_dest  destination: discard
    resize.error    a cold move has failed                    live_migration_abort, live_migration_force_complete: an order

A phase that fails has no `end`, except `resize_prep`, as in Nova.
"""

from collections.abc import Iterator
from typing import NamedTuple

from minova.conductor.moves.plan import MoveEnd, MovePlan
from minova.objects.servers.failures import Failure
from minova.objects.servers.migration import Migration
from minova.objects.servers.moves import MigrationOrder, MovePhase

_ORDERED = {
    MigrationOrder.ABORT: "live_migration_abort",
    MigrationOrder.FORCE_COMPLETE: "live_migration_force_complete",
}
# Notifications whose start and end are those of one phase at the destination.
_COLD = {MovePhase.CLAIM: "resize_prep", MovePhase.START: "resize_finish"}
_LIVE = {
    MovePhase.PREPARE: "live_migration_pre",
    MovePhase.ARRIVE: "live_migration_post_dest",
    MovePhase.DISCARD: "live_migration_rollback_dest",
}
_SOURCE_WORKS = frozenset({MovePhase.EXPORT, MovePhase.IMPORT, MovePhase.RELEASE})


class MoveNotice(NamedTuple):
    event: str
    host: str | None
    failure: Failure | None = None

    @property
    def has_flavor(self) -> bool:
        """Whether its payload has the new flavor."""
        return self.event.startswith("resize_prep.")


def of_step(
    before: MovePlan, after: MovePlan, migration: Migration, host: str | None, failure: Failure | None
) -> Iterator[MoveNotice]:
    """Yields those of a step from one phase to another. `host`, `failure`: of the phase before."""
    yield from _ends_of_phase(before, migration, host, failure)
    source = migration.source_compute
    if not migration.is_live and before.phase in _SOURCE_WORKS and after.phase is MovePhase.START:
        yield MoveNotice("resize.end", source)
    begun = (_begun_live if migration.is_live else _begun_cold)(after)
    if begun:
        yield MoveNotice(f"{begun}.start", source)
    at_destination = (_LIVE if migration.is_live else _COLD).get(after.phase)
    if at_destination is not None:
        yield MoveNotice(f"{at_destination}.start", migration.dest_compute)


def of_end(
    plan: MovePlan,
    end: MoveEnd,
    migration: Migration,
    host: str | None,
    failure: Failure | None,
    reason: Failure | None,
) -> Iterator[MoveNotice]:
    """Yields those of the end. `host`, `failure`: of the last phase. `reason`: why the move has failed; None: it has not."""
    yield from _ends_of_phase(plan, migration, host, failure)
    source = migration.source_compute
    if migration.is_live:
        if end is MoveEnd.COMPLETED:
            yield MoveNotice("live_migration_post.end", source)
        elif end is MoveEnd.FAILED and plan.phase in {MovePhase.STAY, MovePhase.DISCARD}:
            yield MoveNotice("live_migration_rollback.end", source)
    elif reason is not None:
        yield MoveNotice("resize.error", host or source, reason)
    elif end is MoveEnd.CONFIRMED:
        yield MoveNotice("resize_confirm.end", source)
    elif end is MoveEnd.REVERTED:
        yield MoveNotice("resize_revert.end", source)


def of_order(plan: MovePlan, order: MigrationOrder, migration: Migration) -> Iterator[MoveNotice]:
    """Yields those of an order for a live migration. It ends when the guest does not migrate any more."""
    if migration.is_live:
        yield MoveNotice(f"{_ORDERED[order]}.start", migration.source_compute)
        if plan.phase is not MovePhase.MIGRATE:
            yield MoveNotice(f"{_ORDERED[order]}.end", migration.source_compute)


def _begun_cold(plan: MovePlan) -> str:
    """Returns what begins at the source with this phase."""
    if plan.phase is MovePhase.RESTORE:
        return "resize_revert" if plan.reverting and not plan.fell_back else ""
    return {MovePhase.EXPORT: "resize", MovePhase.LEAVE: "resize_confirm"}.get(plan.phase, "")


def _begun_live(plan: MovePlan) -> str:
    return {MovePhase.ARRIVE: "live_migration_post", MovePhase.STAY: "live_migration_rollback"}.get(plan.phase, "")


def _ends_of_phase(
    plan: MovePlan, migration: Migration, host: str | None, failure: Failure | None
) -> Iterator[MoveNotice]:
    """Yields the ends of what this phase was, on its host."""
    if migration.is_live and plan.phase is MovePhase.MIGRATE and plan.order in _ORDERED:
        yield MoveNotice(f"{_ORDERED[plan.order]}.end", host)
    name = (_LIVE if migration.is_live else _COLD).get(plan.phase)
    if name is not None and (failure is None or plan.phase is MovePhase.CLAIM):
        yield MoveNotice(f"{name}.end", host)
