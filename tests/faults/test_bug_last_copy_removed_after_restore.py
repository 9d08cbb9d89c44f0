"""A copy of a guest is removed only if the other copy has been shown: a restored database does not know what was removed since."""

from collections.abc import Callable
from pathlib import Path

import pytest

from minova import errors
from minova.cmd.commands import recovery
from minova.conductor.tasks.history import CONFIRM
from minova.conductor.unexpected.adoption import Adoption
from minova.conductor.unexpected.listing import now
from minova.conductor.unexpected.removal import remove
from minova.db import quotas
from minova.db.recovery import unexpected
from minova.objects.servers.states import PowerState
from minova.placement.audit import gather
from minova.placement.audit.judge import FindingKind
from tests.faults.cloud import LARGER
from tests.faults.mover import Mover
from tests.faults.restores import recover, remove_given_up
from tests.faults.test_bug_moves import message, other

pytestmark = pytest.mark.timeout(300)
RUNNING, OFF = PowerState.RUNNING, PowerState.SHUTDOWN


def lose(mover: Mover, host: str) -> None:
    """The host has neither domain nor disks any more."""
    mover.cloud.drivers[host].destroy(mover.uuid)


def moved(mover: Mover, kind: str = "migrate") -> str:
    destination = other(mover)
    mover.do(kind, LARGER if kind == "resize" else None)
    assert mover.state == ("resized", None, destination)
    return destination


@pytest.mark.parametrize("kind", ["migrate", pytest.param("resize", marks=pytest.mark.nightly("as a migration"))])
def test_a_revert_removes_nothing_if_the_source_has_no_copy(mover: Mover, kind: str) -> None:
    destination = moved(mover, kind)
    lose(mover, mover.source)
    mover.do("revert_resize")
    assert mover.domains() == {destination: RUNNING}
    assert mover.state == ("resized", None, destination)
    assert mover.migration().status == "finished"
    assert "A host that must have a copy of the server has none" in str(message(mover))
    # The owner can still keep the server where it is.
    mover.do("confirm_resize")
    assert mover.state == ("active", None, destination)
    mover.require_sound()


def test_a_confirmation_removes_nothing_if_the_destination_has_no_guest(mover: Mover) -> None:
    destination = moved(mover)
    lose(mover, destination)
    mover.do("confirm_resize")
    assert mover.domains() == {mover.source: OFF}
    assert mover.state == ("resized", None, destination)
    assert mover.migration().status == "finished"


def test_a_revert_waits_for_a_source_that_cannot_look_now(mover: Mover) -> None:
    moved(mover)
    mover.cloud.drivers[mover.source].fail("guest_side", [errors.HypervisorUnavailable("away")])
    mover.ask("revert_resize")
    mover.wait(seconds=120.0)
    assert mover.state == ("active", None, mover.source)
    mover.require_sound()


def test_a_source_without_disks_does_not_take_its_guest_back(mover: Mover) -> None:
    """Its copy goes after it was shown: nothing is made in its place."""
    destination = moved(mover)
    driver = mover.cloud.drivers[destination]
    destroy = driver.destroy

    def lose_both(*arguments: object) -> None:
        destroy(*arguments)  # type: ignore[arg-type]
        lose(mover, mover.source)

    driver.destroy = lose_both  # type: ignore[assignment, method-assign]
    mover.do("revert_resize")
    assert mover.state == ("error", None, mover.source)
    assert mover.domains() == {}


def test_a_cold_move_that_fails_keeps_the_copy_of_its_destination(mover: Mover) -> None:
    """The source has lost its guest while its disks went over: the whole copy is the only one. The server is off."""
    mover.cloud.act(mover.uuid, "stop")
    mover.wait()
    destination = other(mover)
    importing = mover.cloud.drivers[destination].import_disks

    def import_and_lose(instance: object, attempt: int, *rest: object, **more: object) -> None:
        importing(instance, attempt, *rest, **more)  # type: ignore[arg-type]
        mover.cloud.drivers[destination].prepare(instance, destination, attempt, None)  # type: ignore[arg-type]
        lose(mover, mover.source)

    mover.cloud.drivers[destination].import_disks = import_and_lose  # type: ignore[method-assign]
    mover.cloud.drivers[mover.source].fail("stop_export", [RuntimeError("no")])
    mover.do("migrate")
    assert [*mover.domains()] == [destination]
    assert mover.migration().cleanup_host == destination
    mover.world.run(90.0)
    assert [*mover.domains()] == [destination]


def test_a_live_migration_that_stays_asks_both_hosts_if_its_source_has_no_guest(mover: Mover) -> None:
    """The database was restored while the guest was on its way: it has arrived since."""
    destination = other(mover)
    prepare = mover.cloud.drivers[destination].prepare_live

    def arrive_and_fail(instance: object, node: str, attempt: int, *rest: object) -> None:
        prepare(instance, node, attempt, *rest)  # type: ignore[arg-type]
        lose(mover, mover.source)
        raise RuntimeError("no")

    mover.cloud.drivers[destination].prepare_live = arrive_and_fail  # type: ignore[assignment, method-assign]
    mover.do("live_migrate")
    assert mover.domains() == {destination: RUNNING}
    assert mover.state == ("active", None, destination)


# -- the database goes back in time ----------------------------------------------------------------------------------------


@pytest.fixture
def restored(mover: Mover, tmp_path: Path) -> Callable[[str], str]:
    """Returns the destination of a move that was confirmed, or reverted, after the backup that is the database now."""

    def work(action: str) -> str:
        destination = moved(mover)
        mover.cloud.back_up()
        mover.do(action)
        mover.world.run(10.0)
        mover.cloud.restore()
        mover.world.run(20.0 + CONFIRM)
        mover.world.run(150.0)
        return destination

    return work


def force_end(mover: Mover) -> None:
    """The operator ends safe mode without an adoption."""
    findings = recovery.find(mover.cloud.db)
    assert findings.row.safe_since is not None
    recovery.end(mover.cloud.db, findings, (), left=["x"], leave_rest=True)
    mover.world.run(30.0)
    assert mover.cloud.safe_since() is None


def adopt_all(mover: Mover) -> None:
    recover(mover.cloud)
    mover.world.run(120.0)
    assert mover.cloud.safe_since() is None
    with mover.cloud.db.read() as session:
        assert gather.findings(session) == []
        assert quotas.usages_of(session, "p") == quotas.counted(session, "p", quotas.usages_of(session, "p"))


def test_a_revert_of_a_move_that_was_confirmed_since_the_backup(mover: Mover, restored: Callable[[str], str]) -> None:
    destination = restored("confirm_resize")
    force_end(mover)
    mover.do("revert_resize")
    mover.world.run(200.0)
    assert mover.domains() == {destination: RUNNING}
    assert mover.state == ("resized", None, destination)


def test_a_confirmation_of_a_move_that_was_reverted_since_the_backup(
    mover: Mover, restored: Callable[[str], str]
) -> None:
    restored("revert_resize")
    force_end(mover)
    mover.do("confirm_resize")
    mover.world.run(200.0)
    assert mover.domains() == {mover.source: RUNNING}


def test_a_move_whose_source_has_no_copy_is_adopted_as_confirmed(mover: Mover, restored: Callable[[str], str]) -> None:
    destination = restored("confirm_resize")
    (thing,) = recovery.find(mover.cloud.db, mover.cloud.conf("conductor1")).things
    assert (thing.id, thing.where, thing.reason, thing.can_be_adopted) == (mover.uuid, mover.source, "no_copy", True)
    adopt_all(mover)
    assert mover.state == ("active", None, destination)
    assert mover.domains() == {destination: RUNNING}
    assert mover.migration().status == "confirmed"
    assert {*mover.holders()} == {"instance"}
    mover.require_sound()


def test_a_move_that_was_reverted_since_the_backup_is_adopted_at_its_source(
    mover: Mover, restored: Callable[[str], str]
) -> None:
    restored("revert_resize")
    adopt_all(mover)
    assert mover.state == ("active", None, mover.source)
    assert mover.domains() == {mover.source: RUNNING}
    assert mover.migration().status == "reverted"
    assert {*mover.holders()} == {"instance"}
    mover.require_sound()


def restore_after(mover: Mover, *work: Callable[[], None]) -> None:
    mover.cloud.back_up()
    for each in work:
        each()
        mover.wait()
    mover.world.run(10.0)
    mover.cloud.restore()
    mover.world.run(170.0 + CONFIRM)


@pytest.mark.parametrize("kind", ["resize", pytest.param("migrate", marks=pytest.mark.nightly("as a resize"))])
def test_an_adoption_keeps_the_copy_of_the_source_until_the_guest_has_started(mover: Mover, kind: str) -> None:
    """The move waits for its confirmation in reality, too: the database lacks only an action of since."""
    destination = moved(mover, kind)
    restore_after(mover, lambda: mover.cloud.act(mover.uuid, "trigger_crash_dump"))
    adopt_all(mover)
    assert mover.state == ("active", None, destination)
    assert mover.domains() == {mover.source: OFF, destination: RUNNING}
    assert mover.migration().status == "confirmed"
    assert {*mover.holders()} == {"instance", "migration"}
    mover.cloud.act(mover.uuid, "reboot_hard")
    mover.wait()
    mover.world.run(200.0)
    assert mover.domains() == {destination: RUNNING}
    assert {*mover.holders()} == {"instance"}
    mover.require_sound()


def test_bug_server_of_another_size_is_adopted_and_counts_with_that_of_the_backup(mover: Mover) -> None:
    restore_after(mover, lambda: mover.do("resize", LARGER), lambda: mover.do("confirm_resize"))
    adopt_all(mover)
    assert mover.row.flavor == LARGER
    assert mover.cloud.violations() == []


def test_a_server_that_is_off_stays_off_if_its_move_is_adopted_as_confirmed(mover: Mover) -> None:
    destination = moved(mover)
    mover.cloud.drivers[destination].turn(mover.uuid, OFF)
    mover.wait(lambda: mover.row.power_state == OFF, seconds=1500.0)
    restore_after(mover, lambda: mover.do("confirm_resize"))
    adopt_all(mover)
    assert mover.state == ("stopped", None, destination)
    assert mover.domains() == {destination: OFF}
    mover.require_sound()


@pytest.mark.parametrize("source", ["host-0", pytest.param("host-1", marks=pytest.mark.nightly("the other order"))])
def test_one_recovery_ends_a_move_that_was_confirmed_and_whose_server_was_restarted(mover: Mover, source: str) -> None:
    """Whichever of the two hosts is listed first."""
    if mover.source != source:
        moved(mover)
        mover.do("confirm_resize")
        mover.source = source
    destination = moved(mover)
    restore_after(mover, lambda: mover.do("confirm_resize"), lambda: mover.cloud.act(mover.uuid, "reboot_hard"))
    reasons = {thing.where: thing.reason for thing in recovery.find(mover.cloud.db).things}
    assert reasons == {mover.source: "no_copy", destination: "newer"}
    adopt_all(mover)
    assert mover.state == ("active", None, destination)
    assert mover.domains() == {destination: RUNNING}
    assert {*mover.holders()} == {"instance"}
    mover.require_sound()


def test_a_move_that_neither_host_has_is_not_confirmed(mover: Mover) -> None:
    destination = moved(mover)
    lose(mover, mover.source)
    lose(mover, destination)
    mover.world.run(150.0)
    with mover.cloud.db.read() as session:
        (guest,) = (guest_row for guest_row in unexpected.guests(session, mover.uuid) if guest_row.host == mover.source)
    with pytest.raises(errors.Conflict, match="has none either"):
        mover.cloud.db.run(lambda session: Adoption().adopt(session, guest, now(), mover.cloud.db.now()))


def test_the_last_copy_of_a_server_is_not_removed_by_a_word(mover: Mover) -> None:
    """The server's host has lost its guest. Another host has one that is of no use to the row, and may be all that is left."""
    stray = other(mover)
    driver = mover.cloud.drivers[mover.source]
    mover.cloud.drivers[stray]._domains[mover.uuid] = driver._domains[mover.uuid]
    lose(mover, mover.source)
    mover.world.run(150.0)
    with pytest.raises(errors.Conflict, match="may be the last copy"):
        mover.cloud.db.run(lambda session: remove(session, mover.uuid, stray, now()))


def test_source_of_a_lost_move_keeps_its_copy_until_an_operator_removes_it(mover: Mover) -> None:
    destination = other(mover)
    restore_after(mover, lambda: mover.do("migrate"))
    recover(mover.cloud)
    mover.world.run(120.0)
    assert mover.state == ("active", None, destination)
    assert mover.domains() == {mover.source: OFF, destination: RUNNING}
    with mover.cloud.db.read() as session:
        assert [finding.kind for finding in gather.findings(session)] == [FindingKind.MISPLACED_GUEST]
    assert remove_given_up(mover.cloud)
    mover.world.run(150.0)
    assert mover.domains() == {destination: RUNNING}
    assert {*mover.holders()} == {"instance"}
    assert mover.cloud.violations() == []


@pytest.mark.nightly("the test above, while a move of before goes back")
def test_last_of_two_guests_that_are_newer_than_their_row_is_adopted(mover: Mover) -> None:
    destination = moved(mover)
    mover.ask("revert_resize")
    restore_after(mover, lambda: None, lambda: mover.do("migrate"))
    adopt_all(mover)
    assert mover.state == ("active", None, destination)
    assert mover.domains() == {mover.source: OFF, destination: RUNNING}
    mover.do("reboot_hard")
    mover.world.run(200.0)
    assert mover.domains() == {destination: RUNNING}
    mover.require_sound()
