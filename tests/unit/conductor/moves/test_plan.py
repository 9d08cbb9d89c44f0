"""What follows which phase of a cold move."""

import msgspec
import pytest

from minova.conductor.moves.plan import (
    MOST_STARTS,
    PASSING,
    Loss,
    MoveEnd,
    MovePlan,
    after_failure,
    after_loss,
    after_success,
    host_of,
    is_in_doubt,
    is_local,
    keeps_other_copy,
    may_be_open,
    waits,
)
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.failures import Failure
from minova.objects.servers.live_migration import GuestReport, GuestSide
from minova.objects.servers.migration import Migration, MigrationType
from minova.objects.servers.moves import AT_DESTINATION, OF_NO_HOST, MovePhase

FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=512, root_gb=1)
AWAY = Migration(
    uuid="m",
    instance_uuid="i",
    migration_type=MigrationType.RESIZE,
    source_compute="a",
    source_node="a",
    dest_compute="b",
    dest_node="b",
    old_flavor=FLAVOR,
    new_flavor=FLAVOR,
    attempt=2,
)
HERE = msgspec.structs.replace(AWAY, dest_compute="a", dest_node="a")
NO = Failure(kind="HypervisorError", details="no")
Next = MovePhase | MoveEnd | None


def plan(phase: MovePhase, **changed: object) -> MovePlan:
    return MovePlan(migration_uuid="m", phase=phase, **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize("phase", list(MovePhase))
def test_each_phase_is_the_work_of_one_host(phase: MovePhase) -> None:
    expected = None if phase in OF_NO_HOST else "b" if phase in AT_DESTINATION else "a"
    assert host_of(phase, AWAY) == expected


def test_a_move_on_one_node_is_local() -> None:
    assert is_local(HERE)
    assert not is_local(AWAY)
    # Another node of the same host, as with several hypervisors.
    assert not is_local(msgspec.structs.replace(HERE, dest_node="a2"))


@pytest.mark.parametrize(
    ("before", "migration", "after"),
    [
        (plan(MovePhase.CLAIM), AWAY, MovePhase.EXPORT),
        (plan(MovePhase.EXPORT), AWAY, MovePhase.IMPORT),
        (plan(MovePhase.EXPORT), HERE, MovePhase.START),
        (plan(MovePhase.IMPORT), AWAY, MovePhase.RELEASE),
        (plan(MovePhase.RELEASE), AWAY, MovePhase.START),
        (plan(MovePhase.START), AWAY, MoveEnd.FINISHED),
        (plan(MovePhase.SHOW_THERE), AWAY, MovePhase.LEAVE),
        (plan(MovePhase.LEAVE), AWAY, MoveEnd.CONFIRMED),
        (plan(MovePhase.SHOW), AWAY, MovePhase.DISCARD),
        (plan(MovePhase.DISCARD, reverting=True), AWAY, MovePhase.RESTORE),
        (plan(MovePhase.DISCARD), AWAY, MoveEnd.FAILED),
        (plan(MovePhase.RESTORE, reverting=True), AWAY, MoveEnd.REVERTED),
        (plan(MovePhase.RESTORE, claimed=True), AWAY, MovePhase.DISCARD),
        (plan(MovePhase.RESTORE), AWAY, MoveEnd.FAILED),
    ],
)
def test_what_follows_a_success(before: MovePlan, migration: Migration, after: Next) -> None:
    assert after_success(before, migration) is after


FAILURES = [
    (plan(MovePhase.SCHEDULE), MoveEnd.FAILED),
    (plan(MovePhase.CLAIM), MoveEnd.FAILED),
    (plan(MovePhase.EXPORT), MovePhase.RESTORE),
    (plan(MovePhase.IMPORT), MovePhase.RESTORE),
    (plan(MovePhase.RELEASE), MovePhase.RESTORE),
    (plan(MovePhase.START), MoveEnd.BROKEN),
    (plan(MovePhase.SHOW), MoveEnd.REFUSED),
    (plan(MovePhase.SHOW_THERE), MoveEnd.REFUSED),
    (plan(MovePhase.LEAVE), MoveEnd.CONFIRMED),
    (plan(MovePhase.DISCARD), MoveEnd.FAILED),
    (plan(MovePhase.RESTORE), MoveEnd.FAILED),
    (plan(MovePhase.RESTORE, reverting=True), MoveEnd.REVERTED),
]


@pytest.mark.parametrize(("before", "after"), FAILURES)
def test_what_follows_a_failure(before: MovePlan, after: Next) -> None:
    assert after_failure(before, AWAY) is after


def test_a_phase_of_live_migrations_is_none_of_a_cold_move() -> None:
    with pytest.raises(AssertionError):
        after_failure(plan(MovePhase.MIGRATE), AWAY)


@pytest.mark.parametrize(
    ("before", "migration", "silent", "fenced"),
    [
        (plan(MovePhase.SCHEDULE), AWAY, None, None),
        (plan(MovePhase.CLAIM), AWAY, MoveEnd.FAILED, MoveEnd.FAILED),
        # The guest may run at its source.
        (plan(MovePhase.EXPORT), AWAY, None, MovePhase.DISCARD),
        (plan(MovePhase.IMPORT), AWAY, MovePhase.RESTORE, MovePhase.RESTORE),
        (plan(MovePhase.RELEASE), AWAY, None, MovePhase.START),
        (plan(MovePhase.START), AWAY, None, MovePhase.RESTORE),
        (plan(MovePhase.START), HERE, None, MoveEnd.BROKEN),
        (plan(MovePhase.RESTORE), AWAY, None, MoveEnd.FAILED),
        (plan(MovePhase.RESTORE, reverting=True), AWAY, None, MoveEnd.REVERTED),
        (plan(MovePhase.SHOW), AWAY, None, MoveEnd.REFUSED),
        (plan(MovePhase.SHOW_THERE), AWAY, None, MoveEnd.REFUSED),
        (plan(MovePhase.DISCARD, reverting=True), AWAY, None, MovePhase.RESTORE),
        (plan(MovePhase.DISCARD), AWAY, MoveEnd.FAILED, MoveEnd.FAILED),
        (plan(MovePhase.LEAVE), AWAY, MoveEnd.CONFIRMED, MoveEnd.CONFIRMED),
    ],
)
def test_what_follows_when_the_host_is_lost(before: MovePlan, migration: Migration, silent: Next, fenced: Next) -> None:
    """None: the move waits for the host, on which a guest may run."""
    assert after_loss(before, migration, Loss.SILENT) is silent
    assert after_loss(before, migration, Loss.FENCED) is fenced


WAITS = {
    MovePhase.START: {*PASSING, "DiskFull"},
    MovePhase.RESTORE: {*PASSING, "DiskFull"},
    MovePhase.SHOW: PASSING,
    MovePhase.SHOW_THERE: PASSING,
}


@pytest.mark.parametrize("phase", list(MovePhase))
@pytest.mark.parametrize("kind", [*sorted(PASSING), "DiskFull", "HypervisorError", "HostDown"])
def test_a_host_is_asked_again_only_if_no_other_one_can_do_its_work(phase: MovePhase, kind: str) -> None:
    assert waits(plan(phase), Failure(kind=kind, details="x")) is (kind in WAITS.get(phase, ()))


def test_a_revert_waits_for_the_destination_whatever_it_fails_with() -> None:
    assert waits(plan(MovePhase.DISCARD, reverting=True), NO)
    assert not waits(plan(MovePhase.DISCARD), NO)


@pytest.mark.parametrize(
    ("phase", "kind", "ends"),
    [
        (MovePhase.START, "GuestBusy", True),
        (MovePhase.START, "DiskFull", True),
        (MovePhase.RESTORE, "DiskFull", True),
        (MovePhase.RESTORE, "GuestBusy", False),
        (MovePhase.SHOW, "GuestBusy", False),
    ],
)
def test_a_wait_with_another_way_out_has_an_end(phase: MovePhase, kind: str, *, ends: bool) -> None:
    failure = Failure(kind=kind, details="x")
    assert waits(plan(phase, asks=MOST_STARTS - 1), failure)
    assert waits(plan(phase, asks=MOST_STARTS), failure) is not ends


@pytest.mark.parametrize(
    ("end", "before", "failure", "doubt"),
    [
        (MoveEnd.BROKEN, plan(MovePhase.START), None, True),
        (MoveEnd.LOST, plan(MovePhase.HALT), None, True),
        (MoveEnd.FAILED, plan(MovePhase.LOOK), None, True),
        (MoveEnd.FAILED, plan(MovePhase.LOOK_THERE), None, True),
        (MoveEnd.FAILED, plan(MovePhase.STAY), NO, False),
        (MoveEnd.FAILED, plan(MovePhase.STAY, doubted=True), NO, True),
        (MoveEnd.FAILED, plan(MovePhase.STAY, doubted=True), None, False),
        (MoveEnd.FAILED, plan(MovePhase.RESTORE), NO, True),
        (MoveEnd.FAILED, plan(MovePhase.RESTORE), None, False),
        (MoveEnd.FAILED, plan(MovePhase.DISCARD), NO, False),
        (MoveEnd.CONFIRMED, plan(MovePhase.LEAVE), NO, False),
    ],
)
def test_an_end_leaves_open_who_has_the_good_copy(
    end: MoveEnd, before: MovePlan, failure: Failure | None, *, doubt: bool
) -> None:
    assert is_in_doubt(end, before, failure) is doubt


def test_the_copy_of_a_fenced_destination_is_kept_that_may_be_newer() -> None:
    left = GuestReport(side=GuestSide.LEFT, attempt=1)
    for guest, may_have_run, kept in (
        (left, False, True),
        (msgspec.structs.replace(left, side=GuestSide.SHUT_OFF), False, True),
        (msgspec.structs.replace(left, side=GuestSide.RUNNING), False, False),
        (msgspec.structs.replace(left, side=GuestSide.RUNNING), True, True),
        (None, True, False),
    ):
        doubtful = plan(MovePhase.STAY, doubted=True, owed=True, guest=guest, may_have_run_there=may_have_run)
        assert keeps_other_copy(doubtful) is kept
        assert is_in_doubt(MoveEnd.FAILED, doubtful, None) is kept
        assert not keeps_other_copy(msgspec.structs.replace(doubtful, owed=False))


@pytest.mark.parametrize(
    ("phase", "failure", "is_open"),
    [
        (MovePhase.LOOK_THERE, None, True),
        (MovePhase.CLOSE, NO, True),
        (MovePhase.CLOSE, None, False),
        (MovePhase.START, NO, False),
    ],
)
def test_a_guest_without_its_memory_may_have_its_disks_open(
    phase: MovePhase, failure: Failure | None, *, is_open: bool
) -> None:
    assert may_be_open(plan(phase), failure) is is_open


@pytest.mark.parametrize(
    ("reverting", "claimed", "fell_back"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
)
def test_a_revert_of_a_move_that_still_has_its_claim_is_a_fall_back(
    *, reverting: bool, claimed: bool, fell_back: bool
) -> None:
    """A user's revert begins with a plan of its own."""
    assert plan(MovePhase.RESTORE, reverting=reverting, claimed=claimed).fell_back is fell_back
