"""A copy that a move has left was turned on behind minova's back, and ran beside the guest of the server for good: it was neither shown
nor paused. And the guest that a lost live migration had handed over stood still for good.
"""

import math

import msgspec
import pytest
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.unexpected.adoption import Adoption
from minova.conductor.unexpected.listing import now
from minova.conductor.unexpected.removal import remove
from minova.context import RequestContext
from minova.db.models import InstanceAction, InstanceActionEvent, Service
from minova.db.recovery import unexpected
from minova.objects.servers.states import PowerState
from minova.objects.unexpected.guest_record import GuestMark
from tests.faults.mover import Mover
from tests.faults.restores import recover, remove_arriving
from tests.faults.test_bug_last_copy_removed_after_restore import moved, restore_after
from tests.faults.test_bug_moves import message, other, wait_for
from tests.faults.test_evacuation import force, power_back, power_cut

pytestmark = pytest.mark.timeout(300)
RUNNING, PAUSED, OFF = PowerState.RUNNING, PowerState.PAUSED, PowerState.SHUTDOWN
# Seconds within which a host has reported its guests, and has done what the answer says.
REPORTED = 75.0


def turn(mover: Mover, host: str, state: PowerState = RUNNING) -> None:
    """The guest goes into this state by itself, and its host reports that."""
    mover.cloud.drivers[host].turn(mover.uuid, state)
    mover.world.run(REPORTED)


def listed(mover: Mover) -> dict[str, str]:
    """By host why it is not expected there."""
    return {guest.where: guest.reason for guest in mover.cloud.unexpected()}


def records_of_pauses(mover: Mover) -> list[str | None]:
    with mover.cloud.db.read() as session:
        query = select(InstanceActionEvent.host).join(
            InstanceAction, InstanceAction.id == InstanceActionEvent.action_id
        )
        return list(session.scalars(query.where(InstanceAction.action == "guest_paused")))


@pytest.mark.parametrize("is_off", [False, True])
def test_bug_copy_that_waits_for_a_revert_ran_beside_the_guest_of_its_server(mover: Mover, is_off: bool) -> None:
    """Also if the server itself is off."""
    if is_off:
        mover.cloud.act(mover.uuid, "stop")
        mover.wait()
    destination = moved(mover)
    state = mover.domains()[destination]
    turn(mover, mover.source)
    assert mover.domains() == {mover.source: PAUSED, destination: state}
    assert listed(mover) == {mover.source: "stray"}
    assert records_of_pauses(mover) == [mover.source]
    mover.world.run(REPORTED)
    assert listed(mover) == {mover.source: "stray"}, "until it is off"
    assert records_of_pauses(mover) == [mover.source], "one record for one start"
    turn(mover, mover.source)
    assert mover.domains()[mover.source] is PAUSED, "it is paused again"

    mover.do("revert_resize")
    assert mover.state == ("resized", None, destination)
    assert mover.domains() == {mover.source: PAUSED, destination: state}, "nothing was removed"
    assert "not in a state" in str(message(mover))
    turn(mover, mover.source, OFF)
    assert listed(mover) == {}
    mover.do("revert_resize")
    assert mover.state == ("stopped" if is_off else "active", None, mover.source)
    assert mover.domains() == {mover.source: OFF if is_off else RUNNING}
    mover.require_sound()


def test_bug_host_that_turns_its_copy_on_and_off_filled_the_records_of_its_server(mover: Mover) -> None:
    """One record for each host and attempt, with an ID that the host does not choose."""
    moved(mover)
    copy = GuestMark(uuid=mover.uuid, attempt=1, has_domain=True)
    ctx = RequestContext(request_id="req-chosen-by-the-host")
    for _ in range(3):
        for state in (RUNNING, OFF):
            mark = msgspec.structs.replace(copy, power_state=int(state))
            answer = mover.cloud.conductor.report_guests(ctx, host=mover.source, guests=(mark,))
            assert (mover.uuid in answer.pause) is (state is RUNNING), "it is paused each time"
    assert records_of_pauses(mover) == [mover.source]
    with mover.cloud.db.read() as session:
        (request_id,) = session.scalars(
            select(InstanceAction.request_id).where(InstanceAction.action == "guest_paused")
        )
    assert request_id != ctx.request_id

    mover.do("revert_resize")
    assert moved(mover)
    turn(mover, mover.source)
    assert records_of_pauses(mover) == [mover.source] * 2, "another move has left another copy"


def test_a_confirmation_removes_a_copy_that_is_in_use(mover: Mover) -> None:
    """As any copy of a move, once the destination has shown its guest."""
    destination = moved(mover)
    turn(mover, mover.source)
    mover.do("confirm_resize")
    assert mover.state == ("active", None, destination)
    assert mover.domains() == {destination: RUNNING}
    mover.world.run(REPORTED)
    assert listed(mover) == {}
    mover.require_sound()


def test_a_copy_that_is_in_use_is_neither_adopted_nor_removed_by_a_word(mover: Mover) -> None:
    moved(mover)
    turn(mover, mover.source)
    with pytest.raises(errors.Conflict, match="a copy that a move of server"):
        mover.cloud.db.run(lambda session: remove(session, mover.uuid, None, now()))
    with mover.cloud.db.read() as session:
        (guest,) = unexpected.guests(session, mover.uuid)
    with pytest.raises(errors.Conflict, match="a copy that a move has left"):
        mover.cloud.db.run(lambda session: Adoption().adopt(session, guest, now(), mover.cloud.db.now()))


def test_a_copy_that_is_held_is_shown_until_it_is_off(mover: Mover) -> None:
    """Of a move that has ended in an error at its destination: the copy may be the last one."""
    for driver in mover.cloud.drivers.values():
        driver.fail("define_moved", [RuntimeError("no")])
    mover.do("migrate")
    assert mover.row.vm_state == "error"
    turn(mover, mover.source)
    assert mover.domains()[mover.source] is PAUSED
    mover.world.run(REPORTED)
    assert listed(mover) == {mover.source: "stray"}
    turn(mover, mover.source, OFF)
    assert listed(mover) == {}


def adopted_elsewhere(mover: Mover) -> str:
    """Returns the host whose guest was adopted after a restore. The other one keeps its own, off."""
    destination = other(mover)
    restore_after(mover, lambda: mover.do("migrate"))
    recover(mover.cloud)
    mover.world.run(120.0)
    assert mover.domains() == {mover.source: OFF, destination: RUNNING}
    return destination


def test_bug_guest_that_was_given_up_ran_beside_the_adopted_one(mover: Mover) -> None:
    destination = adopted_elsewhere(mover)
    turn(mover, mover.source)
    assert mover.domains() == {mover.source: PAUSED, destination: RUNNING}
    assert listed(mover) == {mover.source: "misplaced"}


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_guest_that_was_given_up_runs_on_unless_the_adopted_one_runs(mover: Mover, is_silent: bool) -> None:
    """Off, or on a host that is silent: it may be the only one."""
    destination = adopted_elsewhere(mover)
    if is_silent:
        power_cut(mover.cloud, destination)
        mover.world.run(120.0)
    else:
        turn(mover, destination, OFF)
        assert mover.row.power_state == OFF
    turn(mover, mover.source)
    assert mover.domains()[mover.source] is RUNNING
    assert listed(mover) == {mover.source: "misplaced"}


def test_bug_older_copy_with_an_action_that_the_database_lacks_was_newer_than_the_adopted_one(mover: Mover) -> None:
    destination = other(mover)

    def stop() -> None:
        mover.cloud.act(mover.uuid, "stop")

    restore_after(mover, stop, lambda: mover.do("migrate"))
    recover(mover.cloud)
    mover.world.run(120.0)
    assert mover.state == ("stopped", None, destination)
    assert listed(mover) == {mover.source: "misplaced"}
    mover.world.run(600.0)
    assert mover.domains() == {mover.source: OFF, destination: OFF}, "no audit removes it"


def restored_while_handed_over(mover: Mover, *, fenced: bool = False) -> str:
    """Returns the destination. Its copy has come whole, and the database has lost the migration. `fenced`: it was forced down when the
    backup was made, and up afterwards.
    """
    destination = other(mover)
    for driver in mover.cloud.drivers.values():
        driver.hands_over = True
    mover.cloud.back_up()
    if fenced:
        force(mover.cloud, destination, down=False)
        mover.world.run(10.0)
    mover.ask("live_migrate")
    wait_for(mover, "land")
    mover.cloud.restore()
    mover.world.run(200.0)
    assert mover.domains() == {mover.source: PAUSED, destination: PAUSED}
    return destination


def test_bug_guest_stood_still_after_its_arriving_copy_was_removed(mover: Mover) -> None:
    destination = restored_while_handed_over(mover)
    recover(mover.cloud)
    mover.wait(lambda: mover.domains() == {mover.source: RUNNING}, 300.0, step=5.0)
    mover.world.run(REPORTED)
    assert (mover.state, mover.row.power_state) == (("active", None, mover.source), RUNNING)
    mover.do("live_migrate")
    assert mover.row.host == destination
    mover.require_sound()


def test_a_guest_that_was_handed_over_waits_while_the_other_host_has_anything_of_it(mover: Mover) -> None:
    destination = restored_while_handed_over(mover)
    with pytest.raises(AssertionError):  # the copy is neither removed nor adopted
        mover.wait(lambda: mover.domains()[mover.source] is RUNNING, 300.0, step=5.0)
    power_cut(mover.cloud, destination)
    remove_arriving(mover.cloud)
    recover(mover.cloud)
    mover.world.run(300.0)
    assert mover.domains()[mover.source] is PAUSED, "a host that is silent may have it"
    force(mover.cloud, destination, down=True)
    power_back(mover.cloud, destination)
    mover.wait(lambda: mover.domains() == {mover.source: RUNNING}, 300.0, step=5.0)


def test_bug_guest_that_was_handed_over_went_on_before_a_destination_that_the_backup_does_not_know(
    mover: Mover,
) -> None:
    """The destination has joined since the backup, and is silent. Its guest may run."""
    destination = restored_while_handed_over(mover)
    mover.world.keep_down([destination], math.inf)

    def forget(session: Session) -> None:
        session.execute(delete(Service).where(Service.host == destination))
        unexpected.forget_host(session, destination)

    mover.cloud.db.run(forget)
    recover(mover.cloud)
    mover.world.run(300.0)
    assert mover.cloud.safe_since() is None
    assert mover.domains()[mover.source] is PAUSED
    power_back(mover.cloud, destination)
    mover.world.run(120.0)
    assert mover.domains() == {mover.source: PAUSED, destination: PAUSED}
    remove_arriving(mover.cloud)
    mover.wait(lambda: mover.domains() == {mover.source: RUNNING}, 300.0, step=5.0)


def test_a_fence_that_is_as_old_as_the_backup_lets_no_guest_go_on(mover: Mover) -> None:
    """Safe mode waits for the host, and sees its copy."""
    force(mover.cloud, other(mover), down=True)
    destination = restored_while_handed_over(mover, fenced=True)
    mover.world.keep_down([destination], math.inf)
    mover.cloud.db.run(lambda session: unexpected.forget_host(session, destination))
    mover.world.run(300.0)
    assert mover.cloud.safe_since() is not None
    assert mover.domains()[mover.source] is PAUSED
    power_back(mover.cloud, destination)
    recover(mover.cloud)
    mover.wait(lambda: mover.domains() == {mover.source: RUNNING}, 300.0, step=5.0)


def test_a_guest_that_its_user_has_paused_is_not_resumed(mover: Mover) -> None:
    mover.cloud.act(mover.uuid, "pause")
    mover.wait()
    mover.world.run(2 * REPORTED)
    assert mover.domains() == {mover.source: PAUSED}


def test_a_copy_that_is_turned_on_during_a_revert_leaves_the_server_in_error_at_its_source(mover: Mover) -> None:
    """Its host has shown it, and the destination has removed its own. A hard reboot starts the server."""
    moved(mover)
    mover.ask("revert_resize")
    wait_for(mover, "discard")
    mover.cloud.drivers[mover.source].turn(mover.uuid, RUNNING)
    mover.wait()
    assert mover.state == ("error", None, mover.source)
    assert "not in a state" in str(message(mover))
    mover.do("reboot_hard")
    assert mover.state == ("active", None, mover.source)
    assert mover.domains() == {mover.source: RUNNING}
    mover.require_sound()
