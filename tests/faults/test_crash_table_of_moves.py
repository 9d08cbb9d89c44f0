"""A process is killed at each step of a move, or the broker or the database is away for a while: a minute later the server is
whole, in one place, and nothing is left.

A step is anything that a process does to the outside: a message, a transaction, an operation of its hypervisor. MINOVA_TABLE=all
takes every step of every request (tools/check nightly), and MINOVA_STRIDE=3 every third one.
"""

import itertools
import os
from contextlib import suppress

import msgspec
import pytest

from minova import errors
from minova.context import RequestContext
from minova.objects.servers.states import PowerState
from tests.faults.cloud import CONTROLLERS, FLAVOR, LARGER, Cloud
from tests.faults.mover import Mover
from tests.faults.test_crash_table import DOWN_FOR, RESTART_WITHIN, STABLE_WITHIN, Trap, unfinished
from tests.faults.test_orders_of_live_migrations import phase

CTX = RequestContext(request_id="req-order", user_id="u", project_id="p", is_admin=True)
UNDISTURBED = 10.0
# Seconds that the broker or the database is away.
CUT = 8.0
ALL = os.environ.get("MINOVA_TABLE") == "all"
# All steps of a live migration are more than 60.
pytestmark = pytest.mark.timeout(2400 if ALL else 600)
# Every how manieth step is taken, unless all are.
STRIDE = int(os.environ.get("MINOVA_STRIDE", "1" if ALL else "13"))
KILLED = ("source", "destination", "conductor", "scheduler", "broker", "database")
CORE = (
    ("migrate", "destination"),
    ("resize", "conductor"),
    ("confirm_resize", "source"),
    ("revert_resize", "destination"),
    ("live_migrate", "source"),
)
ABORT = "abort"
# What each request begins with, and in which states of the server it may end.
BEGINS_IN = {
    "migrate": "active",
    "resize": "active",
    "confirm_resize": "resized",
    "revert_resize": "resized",
    "live_migrate": "active",
    ABORT: "active",
}
ENDS_IN = {
    "migrate": {"active", "resized"},
    "resize": {"active", "resized"},
    # A conductor that dies before it has accepted the request has not done it.
    "confirm_resize": {"active", "resized"},
    "revert_resize": {"active", "resized"},
    "live_migrate": {"active"},
    ABORT: {"active"},
}


@pytest.fixture
def mover(mover: Mover) -> Mover:
    mover.world.down_for = DOWN_FOR
    for driver in mover.cloud.drivers.values():
        driver.between_rounds = lambda: mover.world.run(0.5)
    return mover


class Cut:
    """Takes the broker or the database away for a while at the given one of its steps, whoever takes it, once: when a message or its
    answer is on its way, or before a transaction begins or commits. Nothing else meets what is away, so each other step is one of these.
    """

    def __init__(self, cloud: Cloud, what: str, step: int) -> None:
        self._world = cloud.world
        self._what = what
        self._left = step
        self.killed: str | None = None
        self._take_away = self._lose if what == "broker" else self._end_database
        self._name = "loses" if what == "broker" else "reach_database"
        original = getattr(self._world, self._name)

        def counted() -> object:
            self._left -= 1
            if self._left == 0:
                self.killed = self._what
                self._take_away()
            return original()

        setattr(self._world, self._name, counted)

    def _end_database(self) -> None:
        self._world._database_back = self._world.now + CUT

    def _lose(self) -> None:
        world, before = self._world, self._world.faults
        world.faults = msgspec.structs.replace(before, lose=1.0)

        def back() -> None:
            world.faults = before

        world.later(CUT, None, back)

    def disarm(self) -> None:
        """The world is as its class says again."""
        delattr(self._world, self._name)


def trap_of(mover: Mover, killed: str, step: int) -> Trap | Cut:
    if killed in {"broker", "database"}:
        return Cut(mover.cloud, killed, step)
    return Trap(mover.cloud, names_of(mover, killed), step)


def audit(mover: Mover) -> None:
    for host in mover.cloud.hosts:
        process = mover.world.processes[host]
        mover.world.later(0.0, process, process.manager.update_available_resource)
    mover.world.run(1.0)


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


def begin_to_migrate(mover: Mover) -> None:
    """Its source is to migrate the guest. A migration that went on to the next phase within this look is too late, and another begins."""
    while True:
        mover.ask("live_migrate")
        mover.wait(lambda: mover.migration().status in {"migrating", "completed"}, step=0.1)
        if phase(mover) == "migrate":
            return
        mover.wait()


def require_one_guest(mover: Mover) -> None:
    """Exactly one guest runs: that of the row's host."""
    running = {host for host, state in mover.domains().items() if state is PowerState.RUNNING}
    assert running == {mover.row.host}


def killed_at(mover: Mover, kind: str, killed: str, step: int) -> bool:
    """False: the move was over before this step."""
    bring_back(mover, kind)
    if kind == ABORT:
        begin_to_migrate(mover)
    trap = trap_of(mover, killed, step)
    with suppress(errors.ServiceUnavailable):  # the conductor that was asked has died
        if kind == ABORT:
            order = msgspec.structs.replace(CTX, request_id=f"req-abort-{step}")
            mover.cloud.conductor.cancel_move(
                order, instance_uuid=mover.uuid, migration_uuid=mover.migration().uuid, override_lock=True
            )
        else:
            mover.ask(kind, LARGER if kind == "resize" else None)
    with suppress(AssertionError):
        mover.wait(lambda: trap.killed is not None or mover.is_at_rest(), UNDISTURBED, step=0.2)
    trap.disarm()
    if trap.killed is None:
        return False
    dead = trap.killed
    if isinstance(trap, Cut):
        mover.world.run(CUT)
    else:
        mover.wait(lambda: mover.world.processes[dead].alive, RESTART_WITHIN)
    mover.wait(seconds=STABLE_WITHIN)
    assert mover.row.vm_state in ENDS_IN[kind], step
    require_one_guest(mover)
    if mover.row.vm_state == "resized":
        mover.do("revert_resize")
    mover.wait(lambda: mover.migration() is None or mover.migration().cleanup_host is None)
    audit(mover)
    assert mover.row.flavor == FLAVOR
    assert (mover.cloud.violations(), mover.cloud.in_error(), unfinished(mover.cloud)) == ([], [], []), step
    return True


@pytest.mark.parametrize(("kind", "killed"), [*itertools.product(BEGINS_IN, KILLED)] if ALL else CORE)
def test_a_killed_process_loses_and_doubles_nothing(mover: Mover, kind: str, killed: str) -> None:
    steps = next(step for step in itertools.count(1, STRIDE) if not killed_at(mover, kind, killed, step))
    # Who has no part in it is not killed.
    assert steps > 1 or (kind, killed) in {
        ("confirm_resize", "destination"),
        ("confirm_resize", "scheduler"),
        ("revert_resize", "scheduler"),
        (ABORT, "scheduler"),
    }
