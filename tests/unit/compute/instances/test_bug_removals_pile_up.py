"""A removal that waits for a build was asked for again and again, until every thread for removals waited with it."""

from minova.compute.instances.workers import REMOVALS
from minova.objects.servers.states import VmState
from tests.fakes.computes import CTX, NODE, wait_until
from tests.unit.compute.instances.test_workers import CallGate, boot, threaded


def test_a_removal_asked_for_many_times_holds_up_no_other() -> None:
    with threaded(max_concurrent_builds=1) as (manager, conductor, hypervisor):
        boot(manager, conductor, "other")
        wait_until(lambda: conductor.instances["other"].vm_state is VmState.ACTIVE)
        gate = hypervisor.on_call = CallGate()
        boot(manager, conductor, "slow")
        wait_until(lambda: gate.inside == 1)
        conductor.begin_delete("slow")
        for _ in range(REMOVALS + 1):
            manager.terminate_instance(CTX, "slow", NODE)
        conductor.begin_delete("other")
        manager.terminate_instance(CTX, "other", NODE)
        wait_until(lambda: conductor.instances["other"].vm_state is VmState.DELETED, 5)
        assert conductor.instances["slow"].vm_state is VmState.BUILDING
        gate.open()
        wait_until(lambda: conductor.instances["slow"].vm_state is VmState.DELETED)
