"""A server moved to a host that ran another guest of it: the disks of that guest were replaced while it ran. The database had been
restored, or an operator had adopted the guest of another host.
"""

import pytest

from minova.objects.servers.states import PowerState
from tests.faults.mover import Mover
from tests.faults.restores import recover
from tests.faults.test_bug_last_copy_removed_after_restore import restore_after
from tests.faults.test_bug_moves import message, other

pytestmark = pytest.mark.timeout(300)
RUNNING = PowerState.RUNNING


@pytest.mark.parametrize("kind", ["migrate", "live_migrate"])
def test_move_to_a_host_that_runs_another_guest_of_the_server_is_refused_before_it_begins(
    mover: Mover, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    destination = other(mover)
    restore_after(mover, lambda: mover.do("migrate"))
    recover(mover.cloud)
    mover.world.run(120.0)
    driver = mover.cloud.drivers[mover.source]
    driver.turn(mover.uuid, RUNNING)
    replaced: list[str] = []
    for name in ("import_disks", "prepare_live"):
        monkeypatch.setattr(driver, name, lambda *arguments, name=name, **named: replaced.append(name))
    mover.do(kind, host=mover.source)
    assert replaced == []
    assert mover.state == ("active", None, destination)
    assert mover.domains() == {mover.source: RUNNING, destination: RUNNING}
    assert "not in a state" in str(message(mover))
