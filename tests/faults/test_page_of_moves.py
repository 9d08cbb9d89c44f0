"""Rows of "what goes wrong" in docs/operators/moves.md that no other test of moves tries."""

from pathlib import Path

import pytest
from sqlalchemy import select

from minova import errors
from minova.db.models import InstanceAction
from minova.objects.servers.migration import Hold
from minova.objects.servers.states import PowerState
from tests.faults.mover import Mover
from tests.faults.test_bug_moves import phase
from tests.faults.test_evacuation import force

pytestmark = pytest.mark.timeout(300)


def message(mover: Mover) -> str:
    """Of the newest action."""
    with mover.cloud.db.read() as session:
        return str(session.scalar(select(InstanceAction.message).order_by(InstanceAction.id.desc()).limit(1)))


def chosen(mover: Mover, kind: str, wanted: str) -> str:
    """Returns the destination, once the move is in this phase."""
    mover.ask(kind)
    mover.wait(lambda: phase(mover) == wanted, step=0.01)
    return str(mover.migration().dest_compute)


def only(mover: Mover, host: str) -> bool:
    return mover.domains() == {host: PowerState.RUNNING}


@pytest.mark.parametrize(
    ("kind", "wanted", "ends"), [("migrate", "claim", "resized"), ("live_migrate", "check", "active")]
)
def test_the_next_alternate_is_tried_when_a_destination_is_silent(
    tmp_path: Path, kind: str, wanted: str, ends: str
) -> None:
    mover = Mover(tmp_path, hosts=3)
    silent = chosen(mover, kind, wanted)
    mover.world.keep_down([silent], 600.0)
    mover.wait(seconds=300.0)
    assert mover.row.vm_state == ends
    assert mover.row.host not in {mover.source, silent}
    assert mover.migration().attempt == 3
    mover.wait(lambda: mover.domains()[str(mover.row.host)] is PowerState.RUNNING)


@pytest.mark.parametrize("kind", ["migrate", "live_migrate"])
def test_without_another_host_the_server_is_as_before_when_its_destination_is_silent(mover: Mover, kind: str) -> None:
    silent = chosen(mover, kind, "claim" if kind == "migrate" else "check")
    mover.world.keep_down([silent], 200.0)
    mover.wait(seconds=300.0)
    assert mover.state == ("active", None, mover.source)
    assert mover.migration().status == "error"
    assert only(mover, mover.source)
    mover.wait(lambda: mover.migration().cleanup_host is None, 300.0)
    mover.require_sound()


def test_a_source_that_is_silent_is_waited_for_and_the_record_says_so(mover: Mover) -> None:
    chosen(mover, "migrate", "export")
    mover.world.keep_down([mover.source], 120.0)
    mover.world.run(100.0)
    assert mover.row.task_state == "resize_migrating"
    assert message(mover) == "The host does not answer. The move waits for it."
    mover.wait(seconds=200.0)
    assert mover.row.vm_state == "resized"


def test_a_move_ends_when_its_source_is_forced_down(mover: Mover) -> None:
    chosen(mover, "migrate", "export")
    mover.world.keep_down([mover.source], 1000.0)
    force(mover.cloud, mover.source, down=True)
    mover.wait(seconds=200.0)
    assert mover.migration().status == "error"
    assert mover.row.host == mover.source


def test_a_source_that_is_forced_down_while_it_keeps_its_guest_may_be_evacuated(mover: Mover) -> None:
    there = mover.other

    def fail() -> None:
        raise errors.HypervisorError("the connection is lost")

    mover.cloud.drivers[mover.source].between_rounds = fail
    chosen(mover, "live_migrate", "stay")
    mover.world.keep_down([mover.source], 300.0)
    mover.world.run(60.0)
    assert mover.state == ("active", "migrating", mover.source), "only a host that is forced down is given up"
    force(mover.cloud, mover.source, down=True)
    mover.wait(seconds=200.0)
    assert (mover.row.host, mover.row.task_state, mover.migration().status) == (mover.source, None, "error")
    assert mover.domains().get(there) is not PowerState.RUNNING
    assert (mover.migration().cleanup_host, mover.migration().hold) == (there, Hold.UNPROVEN)


def test_a_source_that_is_silent_after_its_guest_has_left_pays_later(mover: Mover) -> None:
    there = mover.other
    chosen(mover, "live_migrate", "arrive")
    mover.world.keep_down([mover.source], 150.0)
    mover.wait(seconds=140.0)
    assert mover.state == ("active", None, there)
    assert mover.domains()[there] is PowerState.RUNNING
    assert mover.migration().cleanup_host == mover.source
    assert set(mover.holders()) == {"instance", "migration"}
    mover.wait(lambda: mover.migration().cleanup_host is None, 300.0)
    assert only(mover, there)
    assert set(mover.holders()) == {"instance"}
    mover.require_sound()
