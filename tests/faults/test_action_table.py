"""What may happen in the middle of a server action, tried with each action: where guest, row, domain and allocation are at the
end.

    killed            the compute dies before or after its hypervisor has done it, and comes back
    libvirtd stopped  the hypervisor goes away before it has done it, or before it could answer
    libvirtd hung     it takes longer than `action_timeout`
    slow              it takes longer than the time between two signs of life
    deadline passed   the host never gets the message

MINOVA_TABLE=all tries each action with each of them (tools/check nightly); otherwise some are tried that start guests
or save their memory.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select

from minova.db.models import Image, InstanceAction
from minova.objects.actions.deletion import SOFT_DELETE
from minova.objects.actions.table import ACTIONS, BY_KIND, RUN_BY_HOSTS
from minova.virt.fake.records import Domain
from tests.faults.cloud import Cloud
from tests.faults.storms import ROOMY
from tests.faults.test_crash_table import HOST, is_at_rest, state_of, wait_until
from tests.faults.world import Faults, Process, World

pytestmark = pytest.mark.timeout(600)
ACTION_TIMEOUT = 60
OPTIONS: dict[str, object] = ROOMY | {"conductor__action_timeout": ACTION_TIMEOUT, "shelved_offload_time": -1}
CORE = ("start", "suspend", "unshelve")
KINDS = [action.kind for action in RUN_BY_HOSTS if os.environ.get("MINOVA_TABLE") == "all" or action.kind in CORE]
# What brings an active server into the state in which the action begins.
BEFORE = {
    "start": "stop",
    "unpause": "pause",
    "resume": "suspend",
    "unrescue": "rescue",
    "shelve_offload": "shelve",
    "unshelve": "shelve",
    "restore": "soft_delete",
    "detach_interface": "attach_interface",
}
# How often the guest boots during an action that nothing disturbs. One that is interrupted may do the last boot again, except
# where the guest runs already.
BOOTS = {"start": 1, "restore": 1, "unshelve": 1}
REBOOTS = {"reboot_soft", "reboot_hard", "rescue", "unrescue", "rebuild"}
# Meets the process in an operation of a guest: before it is done, or after.
Meeting = Callable[[World, Process], None]


def kill(world: World, process: Process) -> None:
    world.elsewhere(process, 3.0)
    world.kill(process)
    process.check()


def stop_libvirtd(world: World, process: Process) -> None:
    world.hypervisor_back[process.name] = world.now + 15.0


def take(seconds: float, world: World, process: Process) -> None:
    world.elsewhere(process, seconds)


# What happens, and whether after the operation.
FAULTS: dict[str, tuple[Meeting | None, bool]] = {
    "killed before": (kill, False),
    "killed after": (kill, True),
    "libvirtd stopped before": (stop_libvirtd, False),
    "libvirtd stopped after": (stop_libvirtd, True),
    "libvirtd hung": (partial(take, 2.5 * ACTION_TIMEOUT), False),
    "slow": (partial(take, 0.5 * ACTION_TIMEOUT), False),
    "deadline passed": (None, False),
}


class Once:
    """What happens at the first operation of a guest, before or after it."""

    def __init__(self, world: World, meeting: Meeting, *, after: bool) -> None:
        self._world, self._meeting, self._after = world, meeting, after
        self.has_happened = False
        world.on_operation = self

    def __call__(self, process: Process, name: str, is_done: bool) -> None:
        if not self.has_happened and is_done is self._after:
            self.has_happened = True
            self._meeting(self._world, process)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """One host; each test has a server of its own."""
    new_cloud = Cloud(1, Path(tmp_path_factory.mktemp("table")), hosts=1, **OPTIONS)
    new_cloud.world.faults = Faults(others_first=0.0)
    new_cloud.world.down_for = (1.0, 10.0)
    new_cloud.world.run(30.0)
    yield new_cloud
    new_cloud.world.close()


def server_for(cloud: Cloud, kind: str) -> str:
    """A server in the state in which the action begins."""
    uuids_before = set(cloud.acknowledged)
    cloud.create(len(uuids_before) + 1, 1)
    assert wait_until(cloud, lambda: len(cloud.acknowledged) > len(uuids_before), 30.0)
    (uuid,) = cloud.acknowledged - uuids_before
    assert wait_until(cloud, lambda: state_of(cloud, uuid) == ("active", None), 60.0)
    if kind in BEFORE:
        cloud.act(uuid, BEFORE[kind])
        assert wait_until(cloud, lambda: is_at_rest(cloud, uuid), 60.0)
    return uuid


def domain_of(cloud: Cloud, uuid: str) -> Domain:
    domain = cloud.drivers[HOST].domain(uuid)
    assert domain is not None
    return domain


def result_of(cloud: Cloud, uuid: str) -> str | None:
    """Of the newest action."""
    with cloud.db.read() as session:
        newest = select(InstanceAction).where(InstanceAction.instance_uuid == uuid).order_by(InstanceAction.id.desc())
        row = session.scalars(newest).first()
        return row.result if row is not None else None


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_guest_row_domain_and_allocation_agree_after(cloud: Cloud, kind: str, fault: str) -> None:
    world, action = cloud.world, BY_KIND[kind]
    world.hypervisor_back.clear()  # it may still be away from the test before
    uuid = server_for(cloud, kind)
    (vm_state, _), before = state_of(cloud, uuid), domain_of(cloud, uuid)
    meeting, after = FAULTS[fault]
    happened = Once(world, meeting, after=after) if meeting is not None else None
    if meeting is None:
        world.lost_methods = {"run_action"}
        world.later(2.5 * ACTION_TIMEOUT, None, world.lost_methods.clear)
    cloud.act(uuid, kind)
    assert wait_until(cloud, lambda: is_at_rest(cloud, uuid), 10.0 * ACTION_TIMEOUT), state_of(cloud, uuid)
    world.on_operation = lambda process, name, is_done: None
    assert happened is None or happened.has_happened
    world.lost_methods.clear()

    result, (ended, _) = result_of(cloud, uuid), state_of(cloud, uuid)
    is_cancelled = meeting is None and action is not SOFT_DELETE
    # What may not be done twice, and what is stored nowhere, fails when its host is interrupted.
    is_unknown = fault.startswith(("killed", "libvirtd stopped")) and (action.secret or not action.repeatable)
    if is_cancelled or (is_unknown and result == "Error"):
        assert (result, ended) == ("Error", vm_state)
        domain = domain_of(cloud, uuid)
        assert (domain.boots, domain.power_state, domain.saved) == (before.boots, before.power_state, before.saved)
    else:
        assert (result, ended) == ("Success", action.after_success(BY_KIND_STATES[vm_state]))
        boots_as_it_must(cloud, uuid, kind, before, is_disturbed=fault.startswith(("killed", "libvirtd stopped")))
    assert wait_until(cloud, lambda: not violations(cloud), 120.0), violations(cloud)


def boots_as_it_must(cloud: Cloud, uuid: str, kind: str, before: Domain, *, is_disturbed: bool) -> None:
    domain = cloud.drivers[HOST].domain(uuid)
    if kind == "shelve_offload":
        assert domain is None
        return
    assert domain is not None
    booted = domain.boots - before.boots
    if kind in REBOOTS:
        assert 1 <= booted <= (2 if is_disturbed else 1)
    else:
        assert booted == BOOTS.get(kind, 0)
    assert domain.saved is (kind == "suspend")


BY_KIND_STATES = {state.value: state for action in ACTIONS for state in action.vm_states}


def violations(cloud: Cloud) -> list[str]:
    """Images of servers that were shelved here, and unfinished ones of actions that are cancelled, are no violations."""
    with cloud.db.read() as session:
        kept = set(session.scalars(select(Image.id)))
    return [violation for violation in cloud.violations() if not any(image in violation for image in kept)]
