"""Ten removals that did not end kept every thread for removals, so that nothing could be deleted or built on the host.

So did ten removals that waited for builds, which waited for an image.
"""

import threading
from collections.abc import Callable, Iterator

import pytest

from minova import errors
from minova.compute.instances import workers
from minova.compute.instances.workers import REMOVALS, InstanceQueues
from minova.context import RequestContext
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.actions.power import STOP
from minova.objects.catalogue.image import Image
from minova.objects.servers.states import VmState
from tests.fakes.computes import CTX, FLAVOR, HOST, NODE, Compute, wait_until
from tests.unit.compute.instances.test_workers import boot, threaded

IMAGE = Image(id="an-image", status="active", disk_format="raw")
STUCK = [f"stuck-{number}" for number in range(REMOVALS)]


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """An end that does not come before the test has ended."""
    event = threading.Event()
    yield event
    event.set()


def stuck(never: threading.Event) -> Callable[[str], None]:
    def hold(operation: str) -> None:
        if operation == "destroy":
            never.wait(30)

    return hold


def test_ten_stuck_removals_hold_up_no_other_work(never: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "STUCK_AFTER", 0.2)
    with threaded() as (manager, conductor, hypervisor):
        boot(manager, conductor, *STUCK, "other")
        wait_until(lambda: all(instance.vm_state is VmState.ACTIVE for instance in conductor.instances.values()))
        hypervisor.on_call = stuck(never)
        for uuid in STUCK:
            conductor.begin_delete(uuid)
            manager.terminate_instance(CTX, uuid, NODE)
        wait_until(lambda: hypervisor.calls.count("destroy") == REMOVALS)
        hypervisor.on_call = lambda operation: None
        conductor.begin_delete("other")
        manager.terminate_instance(CTX, "other", NODE)
        boot(manager, conductor, "new")
        wait_until(lambda: conductor.instances["other"].vm_state is VmState.DELETED)
        wait_until(lambda: conductor.instances["new"].vm_state is VmState.ACTIVE)
        never.set()


def test_bug_questions_to_a_hung_conductor_held_the_threads_of_the_rpc_server(
    never: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    with threaded() as (manager, conductor, _):
        boot(manager, conductor, *STUCK, "other")
        wait_until(lambda: all(instance.vm_state is VmState.ACTIVE for instance in conductor.instances.values()))
        removal_requests: list[str] = []
        answer = conductor.begin_removal

        def hang(ctx: RequestContext, instance_uuid: str, host: str) -> None:
            removal_requests.append(instance_uuid)
            never.wait(30)
            answer(ctx, instance_uuid=instance_uuid, host=host)

        monkeypatch.setattr(conductor, "begin_removal", hang)
        for _ in range(2):
            for uuid in STUCK:
                conductor.begin_delete(uuid)
                manager.terminate_instance(CTX, uuid, NODE)  # returns at once
        wait_until(lambda: len(removal_requests) == REMOVALS)
        # Other work of the host goes on meanwhile.
        instance = conductor.commit_action("other", STOP, 1)
        manager.run_action(CTX, instance, 1, STOP.kind, HostArguments())
        wait_until(lambda: conductor.instances["other"].vm_state is VmState.STOPPED)
        never.set()
        wait_until(lambda: all(conductor.instances[uuid].vm_state is VmState.DELETED for uuid in STUCK))


def test_a_build_behind_a_stuck_removal_of_its_own_instance_holds_no_thread(never: threading.Event) -> None:
    with threaded(max_concurrent_builds=1) as (manager, conductor, hypervisor):
        boot(manager, conductor, "i")
        wait_until(lambda: conductor.instances["i"].vm_state is VmState.ACTIVE)
        hypervisor.on_call = stuck(never)
        manager.collaborators.background.run(
            CTX, ("unexpected 1", "i"), lambda: manager.collaborators.builder.removals.remove_unexpected(CTX, "i", 1)
        )
        wait_until(lambda: "destroy" in hypervisor.calls)
        boot(manager, conductor, "i", "new")
        wait_until(lambda: conductor.instances["new"].vm_state is VmState.ACTIVE)
        never.set()


def test_deletes_of_builds_that_wait_for_an_image_end_at_once(never: threading.Event) -> None:
    with threaded(max_concurrent_builds=REMOVALS) as (manager, conductor, hypervisor):
        boot(manager, conductor, "other")
        wait_until(lambda: conductor.instances["other"].vm_state is VmState.ACTIVE)
        hypervisor.wants_image = True
        shelf = manager.collaborators.builder._images
        waiting: list[int] = []

        def wait(check: object) -> None:
            waiting.append(1)
            while not never.wait(0.01):
                check()  # type: ignore[operator]

        shelf.on_fetch = wait  # type: ignore[attr-defined]
        uuids = [*STUCK, "queued"]
        for uuid in uuids:
            message = conductor.commit_build(uuid, HOST, NODE, FLAVOR, image=IMAGE)
            manager.build_and_run_instance(CTX, message)
        wait_until(lambda: len(waiting) == REMOVALS)
        conductor.begin_delete("queued")
        manager.terminate_instance(CTX, "queued", NODE)
        wait_until(lambda: conductor.instances["queued"].vm_state is VmState.DELETED)
        assert len(waiting) == REMOVALS  # the build that waited for a thread has not even begun
        for uuid in ("other", *STUCK):
            conductor.begin_delete(uuid)
            manager.terminate_instance(CTX, uuid, NODE)
        wait_until(lambda: {instance.vm_state for instance in conductor.instances.values()} == {VmState.DELETED})
        assert conductor.failures == []
        assert conductor.nodes[HOST, NODE].vcpus_used == 0


def test_a_delete_ends_the_build_at_its_next_step() -> None:
    compute = Compute().start()
    message = compute.conductor.commit_build("i", HOST, NODE, FLAVOR)

    def delete(operation: str) -> None:
        if operation == "prepare":
            compute.delete_meanwhile("i")

    compute.hypervisor.on_call = delete
    compute.manager.build_and_run_instance(CTX, message)
    compute.run()
    assert "power_on" not in compute.hypervisor.calls
    assert compute.domains() == {}
    assert compute.conductor.instances["i"].vm_state is VmState.DELETED


def test_work_for_one_instance_is_done_in_the_order_in_which_it_came() -> None:
    queues, offered, done = InstanceQueues(), [], []  # type: ignore[var-annotated]
    for name in "abc":
        queues.add("i", offered.append, lambda name=name: done.append(name))  # type: ignore[misc]
    queues.add("j", offered.append, lambda: done.append("j"))
    assert len(offered) == 2
    while offered:
        offered.pop()()
    assert done == ["j", "a", "b", "c"]


def test_a_piece_of_work_that_gets_no_thread_does_not_keep_the_next_one_waiting() -> None:
    queues, done = InstanceQueues(), []

    def no_thread(work: object) -> None:
        raise RuntimeError("can't start new thread")

    with pytest.raises(RuntimeError):
        queues.add("i", no_thread, lambda: done.append("lost"))
    queues.add("i", lambda work: work(), lambda: done.append("next"))
    assert done == ["next"]


def test_waiting_build_gets_the_error_of_a_failed_fetch() -> None:
    compute = Compute().start()
    compute.hypervisor.wants_image = True
    compute.images.refuse = errors.ServiceUnavailable("no image service")
    compute.boot("i", image=IMAGE)
    assert [failure.reason for failure in compute.conductor.failures] == ["no image service"]
