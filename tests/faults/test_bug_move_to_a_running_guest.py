"""A server moved to a host that had another guest of it, and the disks of that guest were replaced while it ran, or taken for those
of the move. The database had been restored, or an operator had adopted the guest of another host.
"""

import pytest
from sqlalchemy import delete

from minova import errors
from minova.db.models import UnexpectedGuest
from minova.objects.servers.states import PowerState
from tests.faults.mover import Mover
from tests.faults.restores import recover, remove_given_up
from tests.faults.test_bug_last_copy_removed_after_restore import restore_after
from tests.faults.test_bug_moves import message, other
from tests.faults.test_evacuation import power_back, power_cut

pytestmark = pytest.mark.timeout(300)
RUNNING = PowerState.RUNNING


@pytest.mark.parametrize("kind", ["migrate", "live_migrate"])
def test_move_to_a_host_that_runs_another_guest_of_the_server_is_refused_before_it_begins(
    mover: Mover, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The host has not reported that guest yet, so that the scheduler chooses it."""
    destination = other(mover)
    restore_after(mover, lambda: mover.do("migrate"))
    recover(mover.cloud)
    mover.world.run(120.0)
    mover.cloud.drivers[mover.source].turn(mover.uuid, RUNNING)
    replaced = noted_replacements(mover, mover.source, monkeypatch)
    forget_reports(mover)
    mover.do(kind, host=mover.source)
    assert replaced == []
    assert mover.state == ("active", None, destination)
    assert mover.domains() == {mover.source: RUNNING, destination: RUNNING}
    assert "not in a state" in str(message(mover))


@pytest.mark.parametrize("kind", ["migrate", "live_migrate"])
def test_bug_move_took_the_disks_of_a_lost_move_for_its_own(
    mover: Mover, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The host of the lost move was away while the database was restored. Its copy has the number of the attempt that the next move
    gets. It has not reported that copy yet, so that the scheduler chooses it.
    """
    destination = other(mover)
    mover.cloud.back_up()
    mover.do("migrate")
    mover.world.run(10.0)
    lost = mover.row.attempt
    power_cut(mover.cloud, destination)
    mover.cloud.restore()
    mover.world.run(200.0)
    recover(mover.cloud, without=[destination])
    mover.world.run(60.0)
    mover.cloud.act(mover.uuid, "reboot_hard")
    mover.wait()
    power_back(mover.cloud, destination)
    mover.world.run(60.0)
    replaced = noted_replacements(mover, destination, monkeypatch)
    forget_reports(mover)
    mover.ask(kind, host=destination)
    mover.wait(seconds=900.0, step=5.0)
    assert (mover.migration().attempt, mover.migration().status) == (lost, "error")
    assert replaced == []
    assert mover.state == ("active", None, mover.source)
    assert destination in mover.domains()


def test_bug_copy_that_an_adoption_has_left_was_replaced_by_the_next_move(
    mover: Mover, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages promise that it stays until an operator removes it."""
    destination = other(mover)
    restore_after(mover, lambda: mover.do("migrate"))
    recover(mover.cloud)
    mover.world.run(120.0)
    assert mover.state == ("active", None, destination)
    replaced = noted_replacements(mover, mover.source, monkeypatch)
    with pytest.raises(errors.MinovaError, match="No valid host"):
        mover.do("migrate")
    assert replaced == []
    assert remove_given_up(mover.cloud)
    mover.wait(lambda: mover.source not in mover.domains(), 150.0)


def forget_reports(mover: Mover) -> None:
    """As if no host had reported its unexpected guests yet."""
    mover.cloud.db.run(lambda session: session.execute(delete(UnexpectedGuest)))


def noted_replacements(mover: Mover, host: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns what will bring disks to the host; nothing is brought."""
    replacements: list[str] = []
    for name in ("import_disks", "prepare_live"):
        note = lambda *arguments, name=name, **named: replacements.append(name)  # noqa: E731
        monkeypatch.setattr(mover.cloud.drivers[host], name, note)
    return replacements
