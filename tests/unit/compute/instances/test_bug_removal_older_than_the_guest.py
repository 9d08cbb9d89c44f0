"""A removal that had failed, or was requested earlier, met a guest that had come back since, and removed it with its disks. The
row named this host by then, and that counted as the permission.
"""

from functools import partial

import pytest

from minova import errors
from minova.objects.actions.power import REBOOT_HARD
from minova.objects.servers.states import PowerState, VmState
from tests.fakes.computes import CTX, HOST, NODE, Compute
from tests.unit.compute.actions.test_runner import ask

BUSY = errors.HypervisorUnavailable("Failed to terminate process 1: Device or resource busy")
RUNS = {"i": PowerState.RUNNING}


@pytest.fixture
def compute() -> Compute:
    return Compute().start()


def fail_to_build(compute: Compute) -> None:
    """Attempt 1 fails here, and so does the removal of what it has made; the server is built elsewhere by attempt 2."""
    with compute.hypervisor_fails("power_on", "destroy", error=BUSY):
        compute.boot("i")
    assert compute.domains() == {"i": PowerState.SHUTDOWN}
    compute.conductor.commit_build("i", "other", "other-node", compute.conductor.instances["i"].flavor)
    compute.conductor.open.clear()
    compute.conductor.change("i", host="other", node="other-node", vm_state=VmState.ACTIVE, task_state=None)


def come_by_a_move(compute: Compute, attempt: int) -> None:
    instance = compute.conductor.change("i", host=HOST, node=NODE, attempt=attempt)
    compute.hypervisor.prepare(instance, NODE, attempt, None)
    compute.hypervisor.power_on(instance)


def audit(compute: Compute) -> None:
    compute.manager.update_available_resource()
    compute.run()


def test_bug_guest_that_has_moved_here_is_removed_for_a_build_that_failed(compute: Compute) -> None:
    fail_to_build(compute)
    come_by_a_move(compute, attempt=3)
    audit(compute)
    assert compute.domains() == RUNS
    # It is over: neither is the copy removed that the next move leaves here.
    compute.conductor.change("i", host="other", node="other-node", attempt=4)
    compute.manager.collaborators.builder.removals.remove_left(CTX, "i")
    assert compute.domains() == RUNS


def test_bug_guest_that_arrives_is_removed_before_its_row_names_this_host(compute: Compute) -> None:
    fail_to_build(compute)
    come_by_a_move(compute, attempt=3)
    compute.conductor.change("i", host="other", node="other-node")
    compute.manager.collaborators.builder.removals.remove_left(CTX, "i")
    assert compute.domains() == RUNS


def test_what_a_failed_build_has_left_is_removed_by_an_audit(compute: Compute) -> None:
    fail_to_build(compute)
    compute.manager.collaborators.builder.removals.remove_left(CTX, "i")
    assert compute.domains() == {}
    assert compute.manager.collaborators.builder.domains.not_removed() == ()


def test_what_a_failed_build_has_left_waits_for_a_conductor(compute: Compute) -> None:
    fail_to_build(compute)
    with compute.conductor_loses("hosts_of_instances"):
        compute.manager.collaborators.builder.removals.remove_left(CTX, "i")
    assert compute.domains() == {"i": PowerState.SHUTDOWN}
    assert compute.manager.collaborators.builder.domains.not_removed() == ("i",)


def test_bug_guest_is_removed_after_its_deletion_was_given_up(compute: Compute) -> None:
    compute.boot("i")
    with compute.hypervisor_fails("destroy", error=BUSY):
        compute.delete("i")
    compute.conductor.change("i", vm_state=VmState.ERROR, task_state=None)
    ask(compute, REBOOT_HARD, 1)
    audit(compute)
    assert compute.domains() == RUNS


@pytest.mark.parametrize("deleted", [False, True])
def test_bug_guest_is_removed_for_a_verdict_on_an_earlier_one(compute: Compute, deleted: bool) -> None:
    """The verdict waited behind the phases of the move that brought the guest."""
    compute.boot("i")
    removal = partial(compute.manager.collaborators.builder.removals.remove_unexpected, CTX, "i", 1)
    if not deleted:
        come_by_a_move(compute, attempt=2)
    removal()
    assert compute.domains() == ({} if deleted else RUNS)
