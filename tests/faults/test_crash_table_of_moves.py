"""A process is killed at each step of a move: a minute after its restart the server is whole, in one place, and nothing
is left.

A step is anything that a process does to the outside: a message, a transaction, an operation of its hypervisor.
"""

import itertools
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from minova import errors
from minova.conductor.tasks import worker
from minova.objects.servers.states import PowerState
from tests.faults.cloud import CONTROLLERS, FLAVOR
from tests.faults.test_crash_table import DOWN_FOR, RENEWALS, RESTART_WITHIN, STABLE_WITHIN, Trap, unfinished
from tests.faults.test_moves import LARGER, Mover

pytestmark = pytest.mark.timeout(600)
UNDISTURBED = 10.0
# What each request begins with, and in which states of the server it may end.
BEGINS_IN = {"migrate": "active", "resize": "active", "confirm_resize": "resized", "revert_resize": "resized"}
ENDS_IN = {
    "migrate": {"active", "resized"},
    "resize": {"active", "resized"},
    "confirm_resize": {"active"},
    "revert_resize": {"active"},
}


@pytest.fixture(autouse=True)
def _fewer_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "RENEWALS", RENEWALS)


@pytest.fixture
def mover(tmp_path: Path) -> Iterator[Mover]:
    made = Mover(tmp_path)
    made.world.down_for = DOWN_FOR
    try:
        yield made
    finally:
        made.cloud.world.close()


def names_of(mover: Mover, killed: str) -> tuple[str, ...]:
    if killed in CONTROLLERS:
        return CONTROLLERS[killed]
    migration = mover.migration()
    # A migration that has finished is at its destination; one that is to come goes to the other host.
    source = str(mover.row.host) if mover.row.vm_state == "active" else migration.source_compute
    (other,) = {*mover.cloud.hosts} - {source}
    return (source,) if killed == "source" else (other,)


def bring_back(mover: Mover, kind: str) -> None:
    """Into the state in which the request begins."""
    if BEGINS_IN[kind] != mover.row.vm_state:
        mover.do("revert_resize" if mover.row.vm_state == "resized" else "migrate")
    assert mover.row.vm_state == BEGINS_IN[kind]


def require_one_guest(mover: Mover) -> None:
    """Exactly one guest runs: that of the row's host."""
    running = {host for host, state in mover.domains().items() if state is PowerState.RUNNING}
    assert running == {mover.row.host}


def killed_at(mover: Mover, kind: str, killed: str, step: int) -> bool:
    """False: the move was over before this step."""
    bring_back(mover, kind)
    trap = Trap(mover.cloud, names_of(mover, killed), step)
    with suppress(errors.ServiceUnavailable):  # the conductor that was asked has died
        mover.ask(kind, LARGER if kind == "resize" else None)
    with suppress(AssertionError):
        mover.wait(lambda: trap.killed is not None or mover.is_at_rest(), UNDISTURBED, step=0.2)
    trap.disarm()
    if trap.killed is None:
        return False
    dead = trap.killed
    mover.wait(lambda: mover.world.processes[dead].alive, RESTART_WITHIN)
    mover.wait(seconds=STABLE_WITHIN)
    assert mover.row.vm_state in ENDS_IN[kind], step
    require_one_guest(mover)
    if mover.row.vm_state == "resized":
        mover.do("revert_resize")
    mover.wait(lambda: mover.migration() is None or mover.migration().cleanup_host is None)
    mover.world.run(70.0)  # until the next audits
    assert mover.row.flavor == FLAVOR
    assert (mover.cloud.violations(), mover.cloud.in_error(), unfinished(mover.cloud)) == ([], [], []), step
    return True


@pytest.mark.parametrize("killed", ["source", "destination", "conductor", "scheduler"])
@pytest.mark.parametrize("kind", [*BEGINS_IN])
def test_a_killed_process_loses_and_doubles_nothing(mover: Mover, kind: str, killed: str) -> None:
    steps = next(step for step in itertools.count(1) if not killed_at(mover, kind, killed, step))
    # Who has no part in it is not killed.
    assert steps > 1 or (kind, killed) in {
        ("confirm_resize", "destination"),
        ("confirm_resize", "scheduler"),
        ("revert_resize", "scheduler"),
    }
