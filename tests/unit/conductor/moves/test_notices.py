"""Which notifications steps of moves cause that no story of a whole cloud shows (tests/faults/test_notifications_of_moves.py has those)."""

import msgspec

from minova.conductor.moves.notices import of_end, of_order, of_step
from minova.conductor.moves.plan import MoveEnd, MovePlan
from minova.objects.servers.failures import Failure
from minova.objects.servers.migration import MigrationType
from minova.objects.servers.moves import MigrationOrder, MovePhase
from tests.unit.conductor.moves.test_live_plan import MIGRATION

COLD = msgspec.structs.replace(MIGRATION, migration_type=MigrationType.MIGRATION)
FAILED = Failure(kind="HypervisorError", details="no")


def plan(phase: MovePhase, **fields: object) -> MovePlan:
    return MovePlan(migration_uuid="m", phase=phase, **fields)  # type: ignore[arg-type]


def test_a_forced_completion_ends_when_the_guest_has_left() -> None:
    migrating = plan(MovePhase.MIGRATE)
    begun = [notice.event for notice in of_order(migrating, MigrationOrder.FORCE_COMPLETE, MIGRATION)]
    forced = msgspec.structs.replace(migrating, order=MigrationOrder.FORCE_COMPLETE)
    left = [(notice.event, notice.host) for notice in of_step(forced, plan(MovePhase.ARRIVE), MIGRATION, "a", None)]
    assert begun == ["live_migration_force_complete.start"]
    assert left[0] == ("live_migration_force_complete.end", "a")


def test_an_abort_before_the_guest_migrates_is_done_at_once() -> None:
    events = [notice.event for notice in of_order(plan(MovePhase.QUEUE), MigrationOrder.ABORT, MIGRATION)]
    assert events == ["live_migration_abort.start", "live_migration_abort.end"]
    assert not [*of_order(plan(MovePhase.EXPORT), MigrationOrder.ABORT, COLD)], "Nova cannot cancel a cold move"


def test_an_alternate_begins_with_the_end_of_the_host_that_has_refused() -> None:
    aimed = msgspec.structs.replace(COLD, dest_compute="c")
    notices = [*of_step(plan(MovePhase.CLAIM), plan(MovePhase.CLAIM), aimed, "b", FAILED)]
    assert [(notice.event, notice.host) for notice in notices] == [("resize_prep.end", "b"), ("resize_prep.start", "c")]
    assert all(notice.has_flavor for notice in notices)


def test_a_server_that_falls_back_to_its_source_is_not_reverted_by_its_user() -> None:
    lost = plan(MovePhase.START, claimed=True)
    back = plan(MovePhase.RESTORE, claimed=True, reverting=True)
    assert not [*of_step(lost, back, COLD, "b", FAILED)]
    (told,) = of_end(back, MoveEnd.REVERTED, COLD, "a", None, FAILED)
    assert (told.event, told.host, told.failure) == ("resize.error", "a", FAILED)


def test_a_guest_without_its_memory_ends_without_a_word_of_success() -> None:
    assert not [*of_end(plan(MovePhase.CLOSE), MoveEnd.BROKEN, MIGRATION, "a", None, FAILED)]
