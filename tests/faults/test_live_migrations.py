"""Live migrations through the real services in a simulated world: what is left where, with nothing and with everything going
wrong.
"""

from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from minova import errors
from minova.compute.moves.runner import MoveRunner
from minova.conductor.moves.live_plan import MOST_ARRIVALS
from minova.context import RequestContext
from minova.db.models import Migration
from minova.objects.servers.migration import Hold
from minova.objects.servers.moves import MoveMessage, MovePhase, PhaseResult
from minova.objects.servers.states import PowerState
from tests.faults.mover import Mover
from tests.faults.restores import remove_held_copies
from tests.faults.test_bug_moves import phase
from tests.faults.test_evacuation import force, power_back, power_cut
from tests.nightly import daily

pytestmark = pytest.mark.timeout(300)
CTX = RequestContext(request_id="req-order", user_id="u", project_id="p", is_admin=True)


@pytest.fixture
def mover(mover: Mover) -> Mover:
    for driver in mover.cloud.drivers.values():
        driver.between_rounds = lambda: mover.world.run(1.0)
    return mover


def require_at(mover: Mover, host: str, status: str, state: PowerState = PowerState.RUNNING) -> None:
    """The server is on this host as before the migration, which has ended so, and nothing is left elsewhere."""
    vm_state = "paused" if state is PowerState.PAUSED else "active"
    assert mover.state == (vm_state, None, host)
    assert mover.domains() == {host: state}
    assert set(mover.holders()) == {"instance"}
    assert mover.migration().status == status
    mover.require_sound()


def test_a_server_goes_there_and_back(mover: Mover) -> None:
    there = mover.other
    mover.do("live_migrate")
    require_at(mover, there, "completed")
    assert mover.row.attempt > 1
    mover.do("live_migrate", host=mover.source)
    require_at(mover, mover.source, "completed")


def test_bug_an_audit_calls_a_guest_that_arrives_newer_than_its_row(
    mover: Mover, caplog: pytest.LogCaptureFixture
) -> None:
    def audit() -> None:
        process = mover.world.processes[there]
        mover.world.later(0.0, process, process.manager.update_available_resource)
        mover.world.run(1.0)

    there = mover.other
    mover.cloud.drivers[mover.source].between_rounds = audit
    mover.do("live_migrate")
    require_at(mover, there, "completed")
    assert "newer than its row" not in caplog.text


def test_a_paused_server_stays_paused(mover: Mover) -> None:
    mover.cloud.act(mover.uuid, "pause")
    mover.wait()
    there = mover.other
    mover.do("live_migrate")
    require_at(mover, there, "completed", PowerState.PAUSED)


@pytest.mark.parametrize(
    "operation",
    daily(
        ["live_source", "check_live", "prepare_live", "live_migrate"],
        ("live_migrate",),
        "the guest has not begun to migrate then",
    ),
)
def test_a_failure_before_the_guest_has_left_leaves_the_server_as_it_was(mover: Mover, operation: str) -> None:
    for driver in mover.cloud.drivers.values():
        driver.fail(operation, [errors.HypervisorError("no")])
    mover.do("live_migrate")
    require_at(mover, mover.source, "error")


def test_a_guest_that_has_left_belongs_to_its_destination_although_the_answer_was_lost(mover: Mover) -> None:
    there = mover.other
    source = mover.cloud.drivers[mover.source]

    def lose() -> None:
        source.turn(mover.uuid, PowerState.SHUTDOWN)
        raise errors.HypervisorError("the reply was lost")

    source.live_rounds, source.between_rounds = 2, lose
    mover.do("live_migrate")
    require_at(mover, there, "completed")


def test_a_guest_that_has_not_landed_goes_on_at_its_source(mover: Mover) -> None:
    """Its source has handed it over, and holds no disks before it has landed."""
    source = mover.row.host
    (destination,) = {*mover.cloud.hosts} - {source}
    await_guest = mover.cloud.drivers[destination].await_guest

    def lost(uuid: str, *_: object) -> None:
        mover.cloud.drivers[destination].destroy(uuid)
        await_guest(uuid, 0, lambda: None)

    mover.cloud.drivers[destination].await_guest = lost  # type: ignore[method-assign,assignment]
    mover.do("live_migrate")
    assert mover.state == ("active", None, source)
    assert mover.migration().status == "error"
    assert mover.domains() == {source: PowerState.RUNNING}
    mover.require_sound()


def test_a_guest_that_goes_on_at_its_source_before_its_disks_are_held_stays(mover: Mover) -> None:
    """libvirt continues it there if the answer of the destination is lost."""
    source = mover.source
    driver = mover.cloud.drivers[source]
    hold_disks = driver.hold_disks

    def too_late(*arguments: Any) -> None:
        driver.stay(mover.uuid)
        hold_disks(*arguments)

    driver.hold_disks = too_late  # type: ignore[method-assign,assignment]
    mover.do("live_migrate")
    assert mover.state == ("active", None, source)
    assert mover.migration().status == "error"
    assert mover.domains() == {source: PowerState.RUNNING}
    mover.require_sound()


def test_a_guest_that_is_about_to_land_is_waited_for(mover: Mover) -> None:
    source = mover.row.host
    (destination,) = {*mover.cloud.hosts} - {source}
    mover.cloud.drivers[destination].fail("await_guest", [errors.HypervisorUnavailable("restarts")])
    mover.do("live_migrate")
    assert mover.state == ("active", None, destination)
    assert mover.domains() == {destination: PowerState.RUNNING}
    mover.require_sound()


def test_a_guest_that_cannot_go_on_at_its_destination_is_in_error_there(mover: Mover) -> None:
    there = mover.other
    mover.cloud.drivers[there].fail("arrive", [errors.HypervisorError("no")] * MOST_ARRIVALS)
    mover.ask("live_migrate")
    mover.wait(seconds=1200.0, step=5.0)
    assert mover.state == ("error", None, there)
    assert mover.migration().status == "error"
    assert mover.migration().cleanup_host == mover.source
    mover.delete()
    mover.require_sound()


@pytest.mark.parametrize("error", [errors.HypervisorError("no"), OSError(28, "No space left on device")])
def test_bug_guest_that_was_whole_at_its_destination_was_given_up(mover: Mover, error: Exception) -> None:
    """The server was in ERROR, and all that was offered for it was a hard reboot, which loses its memory."""
    there = mover.other
    mover.cloud.drivers[there].fail("arrive", [error] * 3)
    mover.do("live_migrate")
    require_at(mover, there, "completed")


def test_a_guest_that_is_gone_at_its_destination_is_not_waited_for(mover: Mover) -> None:
    there = mover.other
    arrive = mover.cloud.drivers[there].arrive

    def ends(*arguments: Any) -> PowerState:
        mover.cloud.drivers[there].turn(mover.uuid, PowerState.SHUTDOWN)
        mover.cloud.drivers[there].arrive = arrive  # type: ignore[method-assign]
        raise errors.GuestStateUnexpected("it does not run")

    mover.cloud.drivers[there].arrive = ends  # type: ignore[method-assign,assignment]
    mover.do("live_migrate")
    assert mover.state == ("error", None, there)


def fence_in_arrive(mover: Mover, there: str) -> None:
    """Live-migrates the server. Its destination dies and is fenced right after the row has it."""
    mover.ask("live_migrate")
    mover.wait(lambda: mover.state == ("active", "migrating", there), step=0.01)
    power_cut(mover.cloud, there)
    force(mover.cloud, there, down=True)


def test_bug_destination_fenced_right_after_the_switch_took_the_guest_with_it(mover: Mover) -> None:
    """The server was in ERROR on the dead host, although its source had the whole guest still. Its guest there may have gone on and
    written: that copy stays.
    """
    there = mover.other
    fence_in_arrive(mover, there)
    mover.wait()
    assert mover.state == ("active", None, mover.source)
    assert mover.domains()[mover.source] is PowerState.RUNNING
    assert mover.migration().status == "error"
    assert (mover.migration().cleanup_host, mover.migration().hold) == (there, Hold.LAST)
    assert {*mover.holders()} == {"instance", "migration"}
    force(mover.cloud, there, down=False)
    power_back(mover.cloud, there)
    mover.cloud.act(mover.uuid, "reboot_hard")
    mover.world.run(60.0)
    assert mover.domains()[there] is PowerState.SHUTDOWN
    assert mover.state == ("active", None, mover.source)
    mover.delete()
    mover.wait(lambda: not mover.domains(), 90.0)


@pytest.mark.parametrize("is_late", [False, True], ids=["resumed before its report", "resumed by itself"])
def test_bug_destination_that_was_forced_down_without_being_off_ran_the_guest_too(mover: Mover, is_late: bool) -> None:
    """It counted its guest as newer than the row, so that both hosts ran the guest until the server was deleted."""
    there, source = mover.other, mover.source
    driver = mover.cloud.drivers[there]
    arrive = driver.arrive

    def after_all(*arguments: Any) -> PowerState:
        driver.arrive = arrive  # type: ignore[method-assign]
        force(mover.cloud, there, down=True)
        mover.wait(lambda: mover.state == ("active", None, source))
        return arrive(*arguments)

    driver.arrive = after_all  # type: ignore[method-assign,assignment]
    mover.ask("live_migrate")
    mover.wait(lambda: mover.migration().status == "error")
    if is_late:
        driver.turn(mover.uuid, PowerState.RUNNING)
        mover.world.run(90.0)
    assert mover.state == ("active", None, source)
    assert mover.domains() == {source: PowerState.RUNNING, there: PowerState.PAUSED}
    assert mover.migration().hold is Hold.LAST
    mover.delete()
    force(mover.cloud, there, down=False)
    mover.wait(lambda: not mover.domains(), 90.0)


@pytest.mark.nightly("tests/unit/conductor/moves/test_live_plan.py has the rules")
def test_bug_a_destination_fenced_after_the_switch_keeps_the_server_whose_guest_the_source_has_ended(
    mover: Mover,
) -> None:
    """The source has the disks, which are whole, but not the memory. The destination's disks may be newer: they are held."""
    there = mover.other
    mover.cloud.drivers[mover.source].hands_over = False
    fence_in_arrive(mover, there)
    mover.wait()
    assert mover.state[2] == mover.source
    assert mover.domains()[mover.source] is PowerState.SHUTDOWN
    assert (mover.migration().cleanup_host, mover.migration().hold) == (there, Hold.LAST)
    force(mover.cloud, there, down=False)
    power_back(mover.cloud, there)
    mover.wait(lambda: mover.state == ("stopped", None, mover.source), 90.0)
    mover.cloud.act(mover.uuid, "start")
    mover.world.run(60.0)
    assert there in mover.domains()
    mover.delete()
    mover.wait(lambda: not mover.domains(), 90.0)


@pytest.mark.nightly("tests/unit/conductor/moves/test_live_plan.py has the rules")
def test_bug_a_guest_that_never_came_is_in_error_although_its_source_has_it(mover: Mover) -> None:
    there = mover.other
    driver = mover.cloud.drivers[there]
    arrive = driver.arrive

    def is_gone(*arguments: Any) -> PowerState:
        driver.arrive = arrive  # type: ignore[method-assign]
        driver.destroy(mover.uuid)
        raise errors.NotFound("no such domain")

    driver.arrive = is_gone  # type: ignore[method-assign,assignment]
    mover.do("live_migrate")
    require_at(mover, mover.source, "error")


@pytest.mark.nightly("tests/unit/conductor/moves/test_live_plan.py has the rules")
def test_a_server_whose_hosts_are_both_fenced_after_the_switch_is_in_error_at_its_destination(mover: Mover) -> None:
    there = mover.other
    fence_in_arrive(mover, there)
    power_cut(mover.cloud, mover.source)
    force(mover.cloud, mover.source, down=True)
    mover.wait()
    assert mover.state == ("error", None, there)
    assert mover.migration().cleanup_host == mover.source
    assert mover.migration().hold in {Hold.OPEN, Hold.UNPROVEN}


def test_bug_paused_copy_stayed_at_a_destination_that_could_not_discard_it_at_once(mover: Mover) -> None:
    """It counted as one that may be in use, although its source had proven its own."""
    there = mover.other
    mover.cloud.drivers[mover.source].fail("live_migrate", [errors.HypervisorError("no")])
    mover.ask("live_migrate")
    mover.wait(lambda: phase(mover) == "stay", step=0.01)
    mover.world.keep_down([there], 100.0)
    mover.wait(seconds=150.0)
    assert (mover.migration().status, mover.migration().cleanup_host) == ("error", there)
    mover.wait(lambda: there not in mover.domains(), 150.0)
    require_at(mover, mover.source, "error")


def test_bug_guest_that_ran_at_a_destination_which_refused_to_discard_it_was_removed(mover: Mover) -> None:
    """Somebody has continued it behind minova's back: it may have written what the source has not."""
    there = mover.other
    mover.cloud.drivers[mover.source].fail("live_migrate", [errors.HypervisorError("no")])
    mover.ask("live_migrate")
    mover.wait(lambda: phase(mover) == "stay", step=0.01)
    mover.world.keep_down([there], 60.0)
    mover.cloud.drivers[there].turn(mover.uuid, PowerState.RUNNING)
    mover.wait(seconds=150.0)
    assert (mover.migration().status, mover.migration().cleanup_host) == ("error", there)
    mover.world.run(120.0)
    assert mover.domains() == {mover.source: PowerState.RUNNING, there: PowerState.PAUSED}
    mover.cloud.act(mover.uuid, "reboot_hard")
    mover.world.run(120.0)
    assert there in mover.domains(), "a start of the source's disks proves nothing about those"
    remove_held_copies(mover.cloud)
    mover.wait(lambda: mover.domains() == {mover.source: PowerState.RUNNING}, 120.0)


def test_guests_that_run_on_both_hosts_are_paused_on_both(mover: Mover) -> None:
    there = mover.other
    source = mover.cloud.drivers[mover.source]

    def both() -> None:
        mover.cloud.drivers[there].turn(mover.uuid, PowerState.RUNNING)
        raise errors.HypervisorError("the reply was lost")

    source.between_rounds = both
    mover.do("live_migrate")
    assert mover.state == ("error", None, mover.source)
    assert set(mover.domains().values()) == {PowerState.PAUSED}
    # The row's host proves its own copy. Then the paused one is removed, too, with the next round of debts.
    mover.cloud.act(mover.uuid, "reboot_hard")
    mover.wait(lambda: mover.migration().cleanup_host is None, 45.0)
    assert mover.domains() == {mover.source: PowerState.RUNNING}
    mover.require_sound()


def test_bug_a_guest_that_could_not_be_halted_at_once_runs_beside_the_other(mover: Mover) -> None:
    there = mover.other
    source = mover.cloud.drivers[mover.source]

    def both() -> None:
        mover.cloud.drivers[there].turn(mover.uuid, PowerState.RUNNING)
        raise errors.HypervisorError("the reply was lost")

    source.between_rounds = both
    for driver in mover.cloud.drivers.values():
        driver.fail("pause", [errors.HypervisorError("no")])
    mover.do("live_migrate")
    assert mover.state == ("error", None, mover.source)
    assert set(mover.domains().values()) == {PowerState.PAUSED}


def test_bug_a_hypervisor_that_restarts_when_the_guest_arrives_leaves_it_paused_in_error(mover: Mover) -> None:
    there = mover.other
    mover.cloud.drivers[there].fail("arrive", [errors.HypervisorUnavailable("it restarts")])
    mover.do("live_migrate")
    require_at(mover, there, "completed")


def test_a_host_takes_part_in_one_live_migration_at_a_time_and_the_first_comes_first(mover: Mover) -> None:
    for driver in mover.cloud.drivers.values():
        driver.live_rounds = 4
    mover.cloud.create(2, 2)
    mover.world.run(30.0)
    uuids = sorted(mover.cloud.acknowledged)
    for number, uuid in enumerate(uuids):
        ctx = msgspec.structs.replace(CTX, request_id=f"req-{number}")
        mover.cloud.conductor.start_action(ctx, instance_uuid=uuid, action="live_migrate", arguments={})
        mover.world.run(0.7)
    most = 0
    ends: list[str] = []

    def is_over() -> bool:
        nonlocal most
        with mover.cloud.db.read() as session:
            rows = list(session.scalars(select(Migration.value).order_by(Migration.id)))
        most = max(most, sum(row.in_progress for row in rows))
        ends.extend(row.instance_uuid for row in rows if row.succeeded and row.instance_uuid not in ends)
        return len(ends) == len(uuids)

    mover.wait(is_over, 200.0, step=0.2)
    assert most == 1
    assert ends == uuids
    mover.wait(lambda: mover.cloud.violations() == [], 120.0, step=10.0)


def test_a_migration_is_cancelled_while_it_waits_for_its_turn(mover: Mover) -> None:
    """It is asked for and cancelled between rounds of another one."""
    mover.cloud.create(2, 1)
    mover.world.run(30.0)
    (other,) = {*mover.cloud.acknowledged} - {mover.uuid}
    calls: list[str] = []

    def ask() -> None:
        mover.world.run(1.0)
        if not calls:
            mover.ask("live_migrate")
            calls.append("live_migrate")
        elif mover.migration().status == "queued" and "cancel" not in calls:
            mover.cloud.conductor.cancel_move(CTX, instance_uuid=mover.uuid, migration_uuid=mover.migration().uuid)
            calls.append("cancel")

    for driver in mover.cloud.drivers.values():
        driver.live_rounds, driver.between_rounds = 30, ask
    mover.cloud.conductor.start_action(CTX, instance_uuid=other, action="live_migrate", arguments={})
    mover.wait(lambda: "cancel" in calls)
    mover.wait(lambda: mover.row.task_state is None, 5.0)
    assert mover.state == ("active", None, mover.source)
    assert mover.migration().status == "cancelled"
    mover.wait(lambda: mover.cloud.violations() == [], 120.0, step=10.0)


@pytest.mark.parametrize(
    "phase",
    daily(
        ["resize_prep", "resize_migrating", "resize_migrated"],
        ("resize_migrated",),
        "the later step has more to take back",
    ),
)
def test_a_cold_migration_is_cancelled_before_the_switch(mover: Mover, phase: str) -> None:
    mover.ask("migrate")
    mover.wait(lambda: phase in mover.state, step=0.01)
    mover.cloud.conductor.cancel_move(CTX, instance_uuid=mover.uuid, migration_uuid=mover.migration().uuid)
    mover.wait()
    require_at(mover, mover.source, "cancelled")


def test_a_move_that_has_arrived_is_not_cancelled(mover: Mover) -> None:
    mover.do("migrate")
    with pytest.raises(errors.Conflict):
        mover.cloud.conductor.cancel_move(CTX, instance_uuid=mover.uuid, migration_uuid=mover.migration().uuid)


def test_an_abort_leaves_the_guest_where_it_is(mover: Mover) -> None:
    for driver in mover.cloud.drivers.values():
        driver.live_rounds = 30
    mover.ask("live_migrate")
    mover.wait(lambda: mover.migration().status == "migrating", step=0.01)
    mover.cloud.conductor.cancel_move(CTX, instance_uuid=mover.uuid, migration_uuid=mover.migration().uuid)
    mover.wait(seconds=20.0)
    require_at(mover, mover.source, "cancelled")


def test_a_forced_migration_ends_soon(mover: Mover) -> None:
    there = mover.other
    for driver in mover.cloud.drivers.values():
        driver.live_rounds = 1000
    mover.ask("live_migrate")
    mover.wait(lambda: mover.migration().status == "migrating", step=0.01)
    migration_uuid = mover.migration().uuid
    mover.cloud.conductor.force_complete_migration(CTX, instance_uuid=mover.uuid, migration_uuid=migration_uuid)
    mover.wait(seconds=20.0)
    require_at(mover, there, "completed")


@pytest.mark.parametrize("status", ["accepted", "pre-migrating"])
def test_a_migration_is_cancelled_before_the_guest_migrates(mover: Mover, status: str) -> None:
    mover.ask("live_migrate")
    mover.wait(lambda: mover.migration().status == status, step=0.01)
    mover.cloud.conductor.cancel_move(CTX, instance_uuid=mover.uuid, migration_uuid=mover.migration().uuid)
    mover.wait()
    require_at(mover, mover.source, "cancelled")


@pytest.mark.parametrize(
    "status",
    daily(
        ["accepted", "pre-migrating", "migrating", "post-migrating"],
        ("migrating", "post-migrating"),
        "before it migrates the guest is on one host alone",
    ),
)
def test_a_deletion_during_a_live_migration_frees_both_sides(mover: Mover, status: str) -> None:
    mover.ask("live_migrate")
    mover.wait(lambda: mover.migration().status == status, step=0.01)
    mover.delete()
    assert mover.domains() == {}
    assert mover.holders() == {}
    mover.require_sound()


def test_a_destination_that_is_silent_is_waited_for_and_a_fenced_one_is_not(mover: Mover) -> None:
    there = mover.other
    source = mover.cloud.drivers[mover.source]

    def fail() -> None:
        mover.world.keep_down([there], 300.0)
        raise errors.HypervisorError("the connection is lost")

    source.between_rounds = fail
    mover.ask("live_migrate")
    mover.world.run(200.0)
    assert mover.row.task_state == "migrating"
    assert mover.domains()[mover.source] is PowerState.RUNNING
    force(mover.cloud, there, down=True)
    mover.wait()
    assert mover.state == ("active", None, mover.source)
    assert mover.migration().status == "error"


def lose_memory(mover: Mover) -> None:
    """The next live migration fails in post-copy: both sides have a part of the memory."""
    source, there = mover.cloud.drivers[mover.source], mover.cloud.drivers[mover.other]

    def fail() -> None:
        for driver in (source, there):
            driver.lost_memory.add(mover.uuid)
            driver.turn(mover.uuid, PowerState.PAUSED)
        raise errors.PostCopyFailed("nothing arrives")

    source.between_rounds = fail


def test_bug_the_source_of_a_failed_post_copy_keeps_the_disks_open(mover: Mover) -> None:
    there = mover.other
    lose_memory(mover)
    mover.do("live_migrate")
    assert mover.state == ("error", None, there)
    assert mover.domains()[mover.source] is PowerState.SHUTDOWN, "the source has ended its part, but keeps its copy"
    assert mover.migration().hold is Hold.UNPROVEN
    mover.cloud.act(mover.uuid, "reboot_hard")
    mover.wait(lambda: mover.migration().cleanup_host is None, 45.0)
    assert mover.domains() == {there: PowerState.RUNNING}
    mover.require_sound()


def test_a_source_that_is_silent_after_a_failed_post_copy_ends_its_guest_when_it_is_back(mover: Mover) -> None:
    there = mover.other
    lose_memory(mover)
    mover.cloud.drivers[mover.source].fail("power_off", [errors.HypervisorError("no")])
    mover.do("live_migrate")
    assert mover.state == ("error", None, there)
    assert mover.migration().hold is Hold.OPEN
    assert mover.domains()[mover.source] is PowerState.PAUSED
    mover.wait(lambda: mover.migration().hold is Hold.UNPROVEN, 90.0)
    assert mover.domains()[mover.source] is PowerState.SHUTDOWN
    mover.delete()
    mover.wait(lambda: mover.domains() == {}, 90.0)
    assert mover.holders() == {}
    mover.require_sound()


def test_each_round_of_looks_has_its_number(mover: Mover, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report counts in its round alone: what a host has of the guest may have changed since."""
    there, rounds = mover.other, set[int | None]()
    driver = mover.cloud.drivers[mover.source]
    end = MoveRunner._end

    def reported(runner: MoveRunner, ctx: RequestContext, move: MoveMessage, result: PhaseResult) -> bool:
        if move.phase is MovePhase.LOOK_THERE:
            rounds.add(move.phase_key.round)
        return end(runner, ctx, move, result)

    def lost() -> None:
        driver.between_rounds = lambda: None
        raise errors.HypervisorError("the reply was lost")

    monkeypatch.setattr(MoveRunner, "_end", reported)
    mover.cloud.drivers[there].fail("guest_side", [errors.HypervisorUnavailable("it restarts")] * 2)
    driver.between_rounds = lost
    mover.do("live_migrate")
    require_at(mover, mover.source, "error")
    assert rounds == {1, 2, 3}
