"""What follows which phase of a live migration."""

import itertools

import msgspec
import pytest

from minova import errors
from minova.conductor.moves.live_plan import (
    MOST_ARRIVALS,
    after_failure,
    after_leaving,
    after_look,
    after_loss,
    after_report,
    after_success,
    denies_fence,
    end_of,
    is_elsewhere,
    waits,
)
from minova.conductor.moves.plan import Loss, MoveEnd, MovePlan, is_in_doubt
from minova.conductor.moves.resolver import Side
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.disk_export import DiskExport
from minova.objects.servers.failures import INTERNAL_ERROR, Failure, kind_of
from minova.objects.servers.live_migration import GuestReport, GuestSide, LiveDestination, LiveMode, LiveSource
from minova.objects.servers.migration import Migration, MigrationType
from minova.objects.servers.moves import MovePhase
from minova.objects.servers.states import VmState

FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=512, root_gb=1)
MIGRATION = Migration(
    uuid="m",
    instance_uuid="i",
    migration_type=MigrationType.LIVE_MIGRATION,
    source_compute="a",
    source_node="a",
    dest_compute="b",
    dest_node="b",
    old_flavor=FLAVOR,
    new_flavor=FLAVOR,
    attempt=2,
)
SHARED = LiveDestination(
    mode=LiveMode.SHARED, uri="u", address="b", tls_name=None, xml="<domain/>", persistent_xml="<domain/>"
)
BLOCK = msgspec.structs.replace(SHARED, mode=LiveMode.BLOCK, copied=("disk",))
SOURCE = LiveSource(
    xml="<domain/>",
    inactive_xml="<domain/>",
    cpu_xml=None,
    sizes={},
    export=DiskExport(host="a", attempt=1, address="a", port=1, files=()),
)
LIVE = (
    *(MovePhase.DESCRIBE, MovePhase.CHECK, MovePhase.PREPARE, MovePhase.MIGRATE, MovePhase.LAND),
    *(MovePhase.HOLD, MovePhase.ARRIVE, MovePhase.LEAVE),
    *(MovePhase.LOOK, MovePhase.STAY, MovePhase.DISCARD, MovePhase.HALT, MovePhase.HALT_THERE, MovePhase.CLOSE),
)


def plan(phase: MovePhase, **fields: object) -> MovePlan:
    return MovePlan(migration_uuid="m", phase=phase, **fields)  # type: ignore[arg-type]


def test_each_way_ends() -> None:
    for phase, claimed, doubted in itertools.product(LIVE, (False, True), (False, True)):
        for follow in (after_success, after_failure):
            seen: list[object] = []
            following: MovePhase | MoveEnd = phase
            while isinstance(following, MovePhase) and following is not MovePhase.LOOK_THERE:
                assert following not in seen
                seen.append(following)
                if following is MovePhase.LOOK and follow is after_failure:
                    break  # asked again
                following = follow(plan(following, claimed=claimed, doubted=doubted), MIGRATION)


def test_only_a_destination_that_has_nothing_that_counts_is_given_up_while_it_is_silent() -> None:
    given_up = {phase for phase in LIVE if after_loss(plan(phase), MIGRATION, Loss.SILENT) is not None}
    # A source that has only to end a guest without its memory does so later.
    assert given_up == {MovePhase.CHECK, MovePhase.PREPARE, MovePhase.LEAVE, MovePhase.DISCARD, MovePhase.CLOSE}


def test_a_source_holds_the_disks_of_a_guest_once_the_destination_has_it() -> None:
    assert after_leaving(handing_over=False) is MovePhase.ARRIVE
    assert after_leaving(handing_over=True) is MovePhase.LAND
    landing = plan(MovePhase.LAND)
    assert after_success(landing, MIGRATION) is MovePhase.HOLD
    # The source has it still, and says so first.
    assert after_failure(landing, MIGRATION) is MovePhase.LOOK
    assert after_loss(landing, MIGRATION, Loss.FENCED) is MovePhase.LOOK
    assert after_loss(landing, MIGRATION, Loss.SILENT) is None
    holding = plan(MovePhase.HOLD)
    assert after_success(holding, MIGRATION) is MovePhase.ARRIVE
    assert after_failure(holding, MIGRATION) is MovePhase.LOOK
    assert after_loss(holding, MIGRATION, Loss.FENCED) is MovePhase.LOOK_THERE
    assert after_loss(holding, MIGRATION, Loss.SILENT) is None


def test_a_fenced_source_leaves_the_word_to_the_destination() -> None:
    assert after_loss(plan(MovePhase.MIGRATE), MIGRATION, Loss.FENCED) is MovePhase.LOOK_THERE
    fenced = plan(MovePhase.LOOK_THERE)
    arrived = Side(report=GuestReport(side=GuestSide.PAUSED, attempt=2))
    assert after_look(fenced, MIGRATION, arrived) is MovePhase.ARRIVE
    assert after_look(fenced, MIGRATION, Side(report=GuestReport(side=GuestSide.ABSENT))) is MoveEnd.FAILED


@pytest.mark.parametrize(
    ("source", "destination", "following"),
    [
        (GuestSide.RUNNING, GuestSide.ABSENT, MovePhase.STAY),
        (GuestSide.RUNNING, GuestSide.PAUSED, MovePhase.STAY),
        (GuestSide.PAUSED_BY_MIGRATION, GuestSide.RUNNING, MovePhase.ARRIVE),
        (GuestSide.LEFT, GuestSide.PAUSED, MovePhase.ARRIVE),
        (GuestSide.CRASHED, GuestSide.ABSENT, MoveEnd.LOST),
        (GuestSide.RUNNING, GuestSide.RUNNING, MovePhase.HALT_THERE),
        (GuestSide.POST_COPY_FAILED, GuestSide.POST_COPY_FAILED, MovePhase.CLOSE),
        (GuestSide.POST_COPY_FAILED, GuestSide.ABSENT, MoveEnd.LOST),
        (GuestSide.POST_COPY, GuestSide.POST_COPY, None),
    ],
)
def test_the_verdict_is_carried_out(source: GuestSide, destination: GuestSide, following: object) -> None:
    looked = plan(MovePhase.LOOK_THERE, guest=GuestReport(side=source, attempt=1), claimed=True, doubted=True)
    assert after_look(looked, MIGRATION, Side(report=GuestReport(side=destination, attempt=2))) is following


def test_bug_a_post_copy_in_which_nothing_arrives_is_waited_for_for_ever() -> None:
    goes_on = GuestReport(side=GuestSide.POST_COPY, attempt=1, moving=True)
    there = Side(report=msgspec.structs.replace(goes_on, attempt=2))
    looked = plan(MovePhase.LOOK_THERE, guest=goes_on, claimed=True, doubted=True)
    stalled = msgspec.structs.replace(looked, failure=Failure(kind=kind_of(errors.PostCopyFailed("no")), details="no"))
    assert after_look(looked, MIGRATION, there) is None
    assert after_look(stalled, MIGRATION, there) is MovePhase.CLOSE


def test_bug_a_source_that_is_fenced_while_it_keeps_its_guest_loses_the_copy_of_the_disks() -> None:
    stays = plan(MovePhase.STAY, claimed=True, doubted=True, live_destination=BLOCK)
    end = after_loss(stays, MIGRATION, Loss.FENCED)
    # The source may have gone on after the copy was whole, so the copy does not run, either.
    assert end is MoveEnd.FAILED
    assert is_in_doubt(end, stays, Failure(kind="HostDown", details=""))
    shared = plan(MovePhase.STAY, claimed=True, doubted=True, live_destination=SHARED)
    assert after_loss(shared, MIGRATION, Loss.FENCED) is MovePhase.DISCARD
    untouched = plan(MovePhase.STAY, claimed=True, live_destination=BLOCK)
    assert after_loss(untouched, MIGRATION, Loss.FENCED) is MovePhase.DISCARD


@pytest.mark.parametrize(
    ("source", "there", "disks", "denies"),
    [
        (GuestReport(side=GuestSide.PAUSED_BY_MIGRATION), GuestSide.RUNNING, BLOCK, True),
        (GuestReport(side=GuestSide.SHUT_OFF), GuestSide.POST_COPY, BLOCK, True),
        (GuestReport(side=GuestSide.PAUSED), GuestSide.RUNNING, BLOCK, True),  # it may go on with the verdict
        (GuestReport(side=GuestSide.RUNNING, moving=True), GuestSide.RUNNING, BLOCK, True),
        (None, GuestSide.RUNNING, BLOCK, True),
        (GuestReport(side=GuestSide.RUNNING), GuestSide.RUNNING, SHARED, True),
        (GuestReport(side=GuestSide.RUNNING), GuestSide.RUNNING, BLOCK, False),
        (GuestReport(side=GuestSide.PAUSED_BY_MIGRATION), GuestSide.PAUSED, BLOCK, False),
    ],
)
def test_a_forced_down_destination_denies_its_fence_if_the_source_would_start_a_second_guest(
    source: GuestReport | None, there: GuestSide, disks: LiveDestination, denies: bool
) -> None:
    looked = plan(MovePhase.LOOK_THERE, guest=source, claimed=True, doubted=True, live_destination=disks)
    assert denies_fence(looked, MIGRATION, GuestReport(side=there, attempt=2)) is denies


def test_the_fence_counts_if_the_source_has_a_guest_that_its_user_has_paused() -> None:
    looked = plan(MovePhase.LOOK_THERE, guest=GuestReport(side=GuestSide.PAUSED, attempt=1), live_destination=BLOCK)
    paused = msgspec.structs.replace(MIGRATION, old_vm_state=VmState.PAUSED)
    assert not denies_fence(looked, paused, GuestReport(side=GuestSide.RUNNING, attempt=2))


def test_bug_a_memory_goes_on_that_is_older_than_its_shared_disks() -> None:
    left = GuestReport(side=GuestSide.PAUSED_BY_MIGRATION, attempt=1)
    looked = plan(MovePhase.LOOK_THERE, guest=left, claimed=True, doubted=True, live_destination=SHARED)
    assert after_look(looked, MIGRATION, Side(fenced=True)) is MoveEnd.LOST
    copied = msgspec.structs.replace(looked, live_destination=BLOCK)
    assert after_look(copied, MIGRATION, Side(fenced=True)) is MovePhase.STAY


@pytest.mark.parametrize(
    ("destination", "old_attempt", "following"),
    [
        (BLOCK, 1, MovePhase.LOOK),
        (SHARED, 1, MoveEnd.BROKEN),  # the disks are the destination's
        (BLOCK, 0, MoveEnd.BROKEN),  # of an earlier release
    ],
)
def test_bug_a_destination_that_has_not_the_guest_ends_in_error_without_a_look_at_the_source(
    destination: LiveDestination, old_attempt: int, following: object
) -> None:
    migration = msgspec.structs.replace(MIGRATION, old_attempt=old_attempt, has_switched=True)
    arriving = plan(MovePhase.ARRIVE, claimed=True, live_destination=destination)
    assert after_loss(arriving, migration, Loss.SILENT) is None
    assert after_loss(arriving, migration, Loss.FENCED) is following
    failure = Failure(kind="NotFound", details="")
    goes_back = following is MovePhase.LOOK
    assert is_elsewhere(arriving, migration, failure, GuestReport(side=GuestSide.ABSENT)) is goes_back
    # Its disks may be newer than the source's.
    assert not is_elsewhere(arriving, migration, failure, GuestReport(side=GuestSide.SHUT_OFF, attempt=2))
    assert not is_elsewhere(arriving, migration, failure, None)


@pytest.mark.parametrize(
    ("side", "may_have_run_there", "following"),
    [
        (GuestSide.PAUSED_BY_MIGRATION, False, MovePhase.DISCARD),
        (GuestSide.PAUSED_BY_MIGRATION, True, MoveEnd.FAILED),
        (GuestSide.LEFT, False, MoveEnd.FAILED),
    ],
)
def test_the_copy_of_a_fenced_destination_is_held_if_it_may_be_newer(
    side: GuestSide, may_have_run_there: bool, following: object
) -> None:
    stays = plan(
        MovePhase.STAY,
        claimed=True,
        doubted=True,
        owed=True,
        may_have_run_there=may_have_run_there,
        guest=GuestReport(side=side, attempt=1),
    )
    assert after_success(stays, MIGRATION) is following
    assert is_in_doubt(MoveEnd.FAILED, stays, None) is (following is MoveEnd.FAILED)


def test_a_server_that_has_switched_and_that_no_host_can_run_stays_where_its_row_is() -> None:
    switched = msgspec.structs.replace(MIGRATION, has_switched=True)
    for end in (MoveEnd.FAILED, MoveEnd.LOST):
        assert end_of(end, switched) is MoveEnd.BROKEN
        assert end_of(end, MIGRATION) is end
    assert end_of(MoveEnd.COMPLETED, switched) is MoveEnd.COMPLETED


def test_bug_a_guest_that_could_not_be_halted_runs_on() -> None:
    first = plan(MovePhase.HALT_THERE)
    assert after_success(first, MIGRATION) is MovePhase.HALT
    assert after_success(plan(MovePhase.HALT), MIGRATION) is MoveEnd.LOST
    for phase in (MovePhase.HALT, MovePhase.HALT_THERE):
        assert waits(plan(phase), MIGRATION, Failure(kind="HypervisorError", details=""))
        assert after_loss(plan(phase), MIGRATION, Loss.SILENT) is None
    assert after_loss(first, MIGRATION, Loss.FENCED) is MovePhase.HALT


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (errors.HypervisorUnavailable("libvirtd restarts"), True),
        (errors.GuestBusy("busy"), True),
        (errors.GuestJobRuns("a snapshot"), True),
        (errors.NoAnswer("the broker restarts"), True),
        (errors.NotFound("no such domain"), False),
        (errors.GuestStateUnexpected("off"), False),
        (errors.HypervisorError("no"), False),
    ],
)
def test_bug_an_error_that_passes_ends_a_migration_whose_guest_has_left(error: Exception, passes: bool) -> None:
    failure = Failure(kind=kind_of(error), details="")
    assert waits(plan(MovePhase.ARRIVE), MIGRATION, failure) is passes
    assert waits(plan(MovePhase.STAY, doubted=True), MIGRATION, failure) is passes
    assert not waits(plan(MovePhase.PREPARE), MIGRATION, failure)


@pytest.mark.parametrize("side", [GuestSide.RUNNING, GuestSide.PAUSED])
def test_bug_a_migration_that_goes_on_after_a_doubt_is_not_watched(side: GuestSide) -> None:
    moving = GuestReport(side=side, attempt=1, moving=True)
    first, again = plan(MovePhase.LOOK), plan(MovePhase.LOOK, asks=2)
    assert after_report(first, moving) is MovePhase.LOOK_THERE
    assert after_report(again, moving) is MovePhase.MIGRATE
    assert after_report(again, GuestReport(side=side, attempt=1)) is MovePhase.LOOK_THERE
    assert after_report(msgspec.structs.replace(again, cancelled=True), moving) is MovePhase.LOOK_THERE
    for other in {*GuestSide} - {GuestSide.RUNNING, GuestSide.PAUSED}:
        assert after_report(again, GuestReport(side=other, attempt=1, moving=True)) is MovePhase.LOOK_THERE


def test_bug_the_source_serves_files_of_a_guest_whose_second_attempt_is_cancelled_in_the_queue() -> None:
    assert after_failure(plan(MovePhase.QUEUE), MIGRATION) is MoveEnd.FAILED
    assert after_failure(plan(MovePhase.QUEUE, live_source=SOURCE), MIGRATION) is MovePhase.STAY


@pytest.mark.parametrize(
    ("guest", "asks", "is_waited_for"),
    [
        (GuestReport(side=GuestSide.PAUSED, attempt=2), 1, True),
        (GuestReport(side=GuestSide.RUNNING, attempt=2), MOST_ARRIVALS - 1, True),
        (GuestReport(side=GuestSide.PAUSED, attempt=2), MOST_ARRIVALS, False),
        (GuestReport(side=GuestSide.PAUSED, attempt=1), 1, False),
        (GuestReport(side=GuestSide.SHUT_OFF, attempt=2), 1, False),
        (GuestReport(side=GuestSide.ABSENT), 1, False),
        (None, 1, False),  # of an earlier release
    ],
)
def test_bug_guest_that_is_whole_at_its_destination_was_given_up(
    guest: GuestReport | None, asks: int, is_waited_for: bool
) -> None:
    failure = Failure(kind=INTERNAL_ERROR, details="No space left on device")
    assert waits(plan(MovePhase.ARRIVE, asks=asks), MIGRATION, failure, guest) is is_waited_for
