"""A conductor or a compute is killed at each step of a server action: a minute after its restart the server is in a stable state.

A step is anything that a process does to the outside: a message, a transaction, an operation of its hypervisor.
"""

import itertools
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import select

from minova import errors
from minova.context import RequestContext
from minova.db.models import Instance, InstanceAction, Task
from minova.db.networks import ports
from minova.objects.actions.table import BY_KIND
from tests.faults.cloud import CONTROLLERS, DELETE_PORT, Cloud
from tests.faults.world import Faults, Process

pytestmark = pytest.mark.timeout(300)
# The lease is as by default; the storms look more rarely. Tasks are looked at half as often as by default, and leases renewed a third
# as often: most of the time of these tests goes into such looks, and rarer ones make what is shown here no easier.
PROMPT: dict[str, object] = {"conductor__worker_lease": 9, "conductor__task_interval": 2}
# Seconds until an action has ended that nothing disturbs, from a restart to a stable state, and of patience for a restart.
UNDISTURBED, STABLE_WITHIN, RESTART_WITHIN = 10.0, 60.0, 120.0
# Seconds that a process is down: half of the conductors that die are back after another one has taken over, and each further
# second costs the periodic work of all others.
DOWN_FOR = (0.5, 20.0)
HOST = "host-0"
# In which state an action begins, where that is not active.
BEGINS_IN = {"unshelve": "shelved_offloaded"}
# How many interfaces a server has before.
INTERFACES = {"attach_interface": 0, "detach_interface": 1, DELETE_PORT: 1}
ALL = os.environ.get("MINOVA_TABLE") == "all"
# One action of each family, and those that the nightly run adds (MINOVA_TABLE=all): the engine knows no kind.
CORE = ("snapshot", "rebuild", "attach_interface")
REST = ("stop", "unshelve", "reboot_soft", "reboot_hard", "shelve", "detach_interface", DELETE_PORT)
# The process dies at each step at night, and at one of seven by day.
STRIDE = 1 if ALL else 7
# What brings a server in one state into another for the next round.
BACK = {
    ("stopped", "active"): "start",
    ("shelved", "active"): "unshelve",
    ("shelved_offloaded", "active"): "unshelve",
    ("active", "shelved_offloaded"): "shelve",
}
# In what a server may be left, beside the state of before and that of the end: a shelve goes on with an offload, and one that
# fails has stopped the guest.
ALSO = {"shelve": {"shelved_offloaded", "stopped"}}


class Trap:
    """Kills the process of one of these names that takes the given step, once."""

    def __init__(self, cloud: Cloud, names: tuple[str, ...], step: int) -> None:
        self._cloud = cloud
        self._left = step
        self.killed: str | None = None
        for name in names:
            self._arm(cloud.world.processes[name])

    def _arm(self, process: Process) -> None:
        check = Process.check

        def counted() -> None:
            if self.killed is None and self._left > 0 and process.alive:
                self._left -= 1
                if self._left == 0:
                    self.killed = process.name
                    self._cloud.world.kill(process)
            check(process)

        process.check = counted  # type: ignore[method-assign]

    def disarm(self) -> None:
        self._left = 0


def state_of(cloud: Cloud, uuid: str) -> tuple[str, str | None]:
    with cloud.db.read() as session:
        row = session.execute(select(Instance.vm_state, Instance.task_state).where(Instance.uuid == uuid)).one()
        return row.vm_state, row.task_state


def is_at_rest(cloud: Cloud, uuid: str) -> bool:
    with cloud.db.read() as session:
        return session.scalar(select(Task.id)) is None and state_of(cloud, uuid)[1] is None


def unfinished(cloud: Cloud) -> list[str]:
    with cloud.db.read() as session:
        return list(session.scalars(select(InstanceAction.action).where(InstanceAction.finish_time.is_(None))))


def wait_until(cloud: Cloud, ready: Callable[[], bool], seconds: float) -> bool:
    until = cloud.world.now + seconds
    while cloud.world.now < until:
        if ready():
            return True
        cloud.world.run(1.0)
    return ready()


def interfaces_of(cloud: Cloud, uuid: str) -> int:
    with cloud.db.read() as session:
        return len(ports.of_instance(session, uuid))


def are_pending_delete(cloud: Cloud, uuid: str) -> bool:
    """Whether a port of the server is deleted and there still."""
    with cloud.db.read() as session:
        return bool(ports.pending_delete_of(session, uuid))


def bring_back(cloud: Cloud, uuid: str, kind: str) -> None:
    """Into the state in which the action begins."""
    while kind in INTERFACES and (has := interfaces_of(cloud, uuid)) != INTERFACES[kind]:
        cloud.act(uuid, "detach_interface" if has else "attach_interface")
        assert wait_until(cloud, lambda: is_at_rest(cloud, uuid), UNDISTURBED)
    expected = BEGINS_IN.get(kind, "active")
    before = state_of(cloud, uuid)[0]
    if before != expected:
        cloud.act(uuid, BACK[before, expected])
        assert wait_until(cloud, lambda: is_at_rest(cloud, uuid), UNDISTURBED)
    assert state_of(cloud, uuid) == (expected, None)


def killed_at(cloud: Cloud, uuid: str, kind: str, names: tuple[str, ...], step: int) -> bool:
    """Act, and kill the process that takes this step. False: the action ended before. The server is as before at the end."""
    world = cloud.world
    bring_back(cloud, uuid, kind)
    trap = Trap(cloud, names, step)
    with suppress(errors.ServiceUnavailable):  # the conductor that was asked has died
        cloud.act(uuid, kind)
    wait_until(cloud, lambda: trap.killed is not None or is_at_rest(cloud, uuid), UNDISTURBED)
    trap.disarm()
    if trap.killed is None:
        return False
    dead = trap.killed
    assert wait_until(cloud, lambda: world.processes[dead].alive, RESTART_WITHIN)
    assert wait_until(cloud, lambda: is_at_rest(cloud, uuid), STABLE_WITHIN), (step, state_of(cloud, uuid))
    world.run(20.0)
    ended = state_of(cloud, uuid)[0]
    ends_in = BY_KIND[kind].ends_in if kind in BY_KIND else None
    assert ended in {BEGINS_IN.get(kind, "active"), ends_in, *ALSO.get(kind, ())}, step
    assert wait_until(cloud, lambda: not are_pending_delete(cloud, uuid), STABLE_WITHIN), step
    assert (cloud.violations(), unfinished(cloud)) == ([], []), step
    return True


@pytest.mark.parametrize("kind", [*CORE, *REST] if ALL else CORE)
@pytest.mark.parametrize("killed", ["conductor", "compute"])
def test_a_server_is_stable_within_a_minute_after_the_restart(tmp_path: Path, kind: str, killed: str) -> None:
    names = CONTROLLERS["conductor"] if killed == "conductor" else (HOST,)
    cloud = Cloud(1, tmp_path, hosts=1, **PROMPT)
    try:
        cloud.world.faults = Faults(others_first=0.0)
        cloud.world.down_for = DOWN_FOR
        cloud.world.run(30.0)
        cloud.create(1, 1)
        cloud.world.run(30.0)
        (uuid,) = cloud.acknowledged
        steps = next(step for step in itertools.count(1, STRIDE) if not killed_at(cloud, uuid, kind, names, step))
        # Each side does several things to the outside for any action.
        assert steps > 3
    finally:
        cloud.world.close()


def build_killed_at(cloud: Cloud, number: int, names: tuple[str, ...], step: int) -> bool:
    """Create a server with two ports, kill the process that takes this step, and delete the server. False: it was built before."""
    world = cloud.world
    trap = Trap(cloud, names, step)
    cloud.create(number, 1, interfaces=2)

    def is_built() -> bool:
        return len(cloud.acknowledged) == number and all(is_at_rest(cloud, uuid) for uuid in cloud.acknowledged)

    wait_until(cloud, lambda: trap.killed is not None or is_built(), UNDISTURBED)
    trap.disarm()
    if trap.killed is not None:
        dead = trap.killed
        assert wait_until(cloud, lambda: world.processes[dead].alive, RESTART_WITHIN)
        assert wait_until(cloud, is_built, STABLE_WITHIN), step
        world.run(20.0)
    assert (cloud.violations(), cloud.in_error(), unfinished(cloud)) == ([], [], []), step
    (uuid,) = cloud.acknowledged - cloud.delete_asked
    assert interfaces_of(cloud, uuid) == 2
    cloud.delete_asked.add(uuid)
    cloud.conductor.delete_server(
        RequestContext(request_id=f"req-delete-{number}", user_id="u", project_id="p"), instance_uuid=uuid
    )
    assert wait_until(cloud, lambda: interfaces_of(cloud, uuid) == 0, STABLE_WITHIN)
    return trap.killed is not None


@pytest.mark.parametrize("killed", ["conductor", "compute"])
def test_a_build_with_ports_leaves_none_too_many(tmp_path: Path, killed: str) -> None:
    names = CONTROLLERS["conductor"] if killed == "conductor" else (HOST,)
    cloud = Cloud(2, tmp_path, hosts=1, **PROMPT)
    try:
        cloud.world.faults = Faults(others_first=0.0)
        cloud.world.down_for = DOWN_FOR
        cloud.world.run(30.0)
        numbered = enumerate(itertools.count(1, STRIDE), 1)
        steps = next(step for number, step in numbered if not build_killed_at(cloud, number, names, step))
        assert steps > 3
    finally:
        cloud.world.close()
