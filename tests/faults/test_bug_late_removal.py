"""A message that asks a host to remove a server came after the deletion was given up, and removed a guest in use with its disks. And
a host that had removed one by then was not believed.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from minova.context import RequestContext
from minova.contracts.compute import ComputeApi
from minova.objects.servers.states import PowerState
from tests.faults.mover import Mover, double_all
from tests.faults.world import Process

pytestmark = pytest.mark.timeout(300)
ADMIN = RequestContext(request_id="req-admin", user_id="u", project_id="p", is_admin=True)
DELETE_TIMEOUT = 60


@pytest.fixture
def mover(tmp_path: Path) -> Iterator[Mover]:
    new_mover = Mover(tmp_path, conductor__delete_timeout=DELETE_TIMEOUT)
    double_all(new_mover.cloud)
    try:
        yield new_mover
    finally:
        new_mover.cloud.world.close()


def ask_to_delete(mover: Mover) -> None:
    mover.cloud.conductor.delete_server(ADMIN, instance_uuid=mover.uuid)


def give_up(mover: Mover) -> None:
    """The deletion is given up, since its host has never got a message."""
    mover.world.lost_methods = {"terminate_instance"}
    ask_to_delete(mover)
    mover.wait(lambda: mover.state == ("error", None, mover.source), 3 * DELETE_TIMEOUT, step=5.0)
    mover.world.lost_methods.clear()


def arrive(mover: Mover) -> None:
    """The message of the deletion reaches its host."""
    client = mover.cloud._client(ComputeApi, None, mover.source)
    client.terminate_instance(ADMIN, instance_uuid=mover.uuid, node=mover.source)


def use_again(mover: Mover) -> None:
    mover.cloud.conductor.reset_server_state(ADMIN, instance_uuid=mover.uuid, vm_state="active")
    mover.do("reboot_hard")
    assert mover.state == ("active", None, mover.source)


def require_used(mover: Mover) -> None:
    assert mover.state == ("active", None, mover.source)
    assert mover.domains() == {mover.source: PowerState.RUNNING}
    mover.world.run(90.0)
    assert mover.cloud.violations() == []


def test_bug_late_message_of_a_deletion_removes_a_guest_in_use(mover: Mover) -> None:
    give_up(mover)
    use_again(mover)
    arrive(mover)
    mover.world.run(30.0)
    require_used(mover)


def test_bug_late_message_of_a_deletion_cancels_what_is_in_progress(mover: Mover) -> None:
    give_up(mover)
    use_again(mover)
    arrived: list[str] = []

    def late(process: Process, name: str, is_done: bool) -> None:
        if not arrived:
            arrived.append(name)
            arrive(mover)
            mover.world.elsewhere(process, 5.0)

    mover.world.on_operation = late
    mover.do("reboot_hard")
    assert arrived
    require_used(mover)


def test_bug_deletion_that_waited_for_other_work_removes_a_guest_in_use(mover: Mover) -> None:
    """It was still wanted when its message came."""
    manager = mover.world.processes[mover.source].manager
    removals = manager._builder.removals
    give_up(mover)
    requested_at = removals._clock()
    use_again(mover)
    mover.world.run(2.0)
    mover.world.later(
        0.0, mover.world.processes[mover.source], partial(manager._terminate, ADMIN, mover.uuid, requested_at)
    )
    mover.world.run(30.0)
    require_used(mover)


def test_bug_removal_of_a_restored_database_removes_a_guest_in_use(mover: Mover) -> None:
    """The database does not know the deletion any more when the host gets its message."""
    mover.cloud.back_up()
    mover.world.lost_methods = {"terminate_instance"}
    ask_to_delete(mover)
    mover.world.run(2.0)
    mover.cloud.restore()
    mover.world.lost_methods.clear()
    mover.wait(lambda: mover.cloud.safe_since() is not None, 60.0)
    mover.wait(lambda: mover.cloud.safe_since() is None, 600.0, step=10.0)
    arrive(mover)
    mover.world.run(30.0)
    require_used(mover)


def test_bug_deletion_that_succeeds_late_leaves_the_server_in_error(mover: Mover) -> None:
    """The host has begun in time, and its hypervisor takes longer than the deletion may take."""
    driver = mover.cloud.drivers[mover.source]
    destroy = driver.destroy
    states: list[str] = []

    def take_long(*arguments: object) -> None:
        process = mover.world.processes[mover.source]
        mover.world.elsewhere(process, 2 * DELETE_TIMEOUT)
        states.append(mover.row.vm_state)
        destroy(*arguments)  # type: ignore[arg-type]

    driver.destroy = take_long  # type: ignore[assignment, method-assign]
    ask_to_delete(mover)
    mover.cloud.delete_asked.add(mover.uuid)
    mover.wait(lambda: mover.row.vm_state == "deleted", 4 * DELETE_TIMEOUT, step=5.0)
    assert states == ["error"]
    assert (mover.domains(), mover.holders()) == ({}, {})
    mover.world.run(90.0)
    assert mover.cloud.violations() == []


@pytest.mark.parametrize("message", ["the row is in use again", "the host is another"])
def test_a_late_report_of_a_removal_changes_nothing_else(mover: Mover, message: str) -> None:
    give_up(mover)
    host = mover.source
    if message == "the host is another":
        host = mover.other
    else:
        use_again(mover)
    before = mover.state
    mover.cloud.conductor.instance_deleted(ADMIN, instance_uuid=mover.uuid, host=host)
    assert mover.state == before
